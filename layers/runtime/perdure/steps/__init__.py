"""The steps: each loads the session, does its work, and commits one command."""
