"""Replication of the log: who leads, what is acknowledged, where logs part. Pure: nothing of it is wired into a store yet."""
