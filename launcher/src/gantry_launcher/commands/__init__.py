"""The commands that a user types, a module each."""
