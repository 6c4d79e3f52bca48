"""From frames to handlers: command table, request classes with their limits, deferred replies, extensions.

Knows no handler.
"""
