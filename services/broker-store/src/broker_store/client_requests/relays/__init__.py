"""Relays: requests of tools that only a client can answer. Never alters the client's answer."""
