"""Access control of a data directory: its keys beside it, and what a start without it exposes."""
