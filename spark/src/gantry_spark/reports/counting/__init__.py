"""Counts a log as it is read, piece by piece."""
