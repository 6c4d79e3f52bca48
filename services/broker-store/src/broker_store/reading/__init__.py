"""Reads: pulls and held pulls, filtered scans, queries by key, position and time. Changes no message."""
