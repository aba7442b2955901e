"""Agents: definitions, tools, policies and the framework runner contract."""
