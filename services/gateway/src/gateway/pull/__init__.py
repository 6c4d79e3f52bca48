"""Pulls by offset, and messages looked up by id, key or time. Never changes anything."""
