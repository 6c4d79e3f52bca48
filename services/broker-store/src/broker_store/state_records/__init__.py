"""State as records of the log: the newest record of a key counts, and retention never deletes the only one. Knows no kind of state."""
