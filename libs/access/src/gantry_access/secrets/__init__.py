"""Secrets at rest: secrets of users, encrypted, because signatures need them; passwords of people, as hashes."""
