"""Typed clients, one per kind of server or subject. Each knows what its requests mean."""
