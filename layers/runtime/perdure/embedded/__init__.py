"""The embedded adapter set: one process, one SQLite file. Standard library only."""
