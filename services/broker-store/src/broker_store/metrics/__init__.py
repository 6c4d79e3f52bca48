"""Metrics of the store. Counts only what others report, and never changes it."""
