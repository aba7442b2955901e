"""Durable AI-agent sessions."""

from perdure._version import __version__

__all__ = ["__version__"]
