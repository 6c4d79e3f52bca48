"""Decides what is asked of the store for a due message, and asks it, at a pace."""
