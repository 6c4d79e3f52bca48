"""Answers orders on messages and tasks: list, cancel, move, deliver now."""
