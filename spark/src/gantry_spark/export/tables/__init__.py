"""A table in a folder, of each kind: its files, its position, its commit. Reads no log and starts no Spark."""
