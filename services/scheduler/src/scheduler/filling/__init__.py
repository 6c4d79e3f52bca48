"""Reads a store's log into the index, from where an earlier term ended."""
