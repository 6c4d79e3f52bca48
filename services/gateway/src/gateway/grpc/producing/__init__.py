"""Calls of producers: send, recall, end a transaction."""
