"""Locks of queues: which one consumer of a group may consume a queue in order."""
