"""Streams to clients: pure mappings of a session's feed to other protocols, and what drives them."""
