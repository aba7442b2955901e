"""Measurements. `make bench` runs them all, prints tables, and writes `bench/results/*.json`."""
