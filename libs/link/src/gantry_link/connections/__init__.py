"""Connections to servers: one with its open calls, a pool of them, and writes at the end of a turn."""
