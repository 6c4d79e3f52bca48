"""Queries: messages by key and position, offsets by time, raw units. For tools, and for clients that look back."""
