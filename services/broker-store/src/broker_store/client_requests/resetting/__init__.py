"""Offset resets: where a group goes on is set by time, offset, earliest or latest, for groups with and without clients."""
