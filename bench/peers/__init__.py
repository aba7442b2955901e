"""Perdure beside other runtimes, on their own workload. Nothing of it is a dependency of the project."""
