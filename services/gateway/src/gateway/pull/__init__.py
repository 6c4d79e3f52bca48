"""Pulls by offset, and queries by id, key or time. Never changes anything."""
