"""A table in a folder, of each kind: its files, its position, one commit. Never reads a log and starts no Spark."""
