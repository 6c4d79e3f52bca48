"""Reads: pulls, held pulls, filtered scans, queries by key, position and time. Never changes a message."""
