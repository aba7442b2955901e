"""Plugins of the whole suite; pytest wants them named at the top."""

pytest_plugins = ["perdure.testing.conformance", "pytester"]
