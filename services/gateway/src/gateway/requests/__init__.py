"""Reads and checks requests: JSON bodies, names, numbers, limits. Never calls a store."""
