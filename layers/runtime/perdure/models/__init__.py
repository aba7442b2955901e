"""Model clients: the protocol, the providers, and a scripted model for tests and demos."""
