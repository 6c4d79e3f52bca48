"""From frames to handlers: command table, classes of requests with their limits, deferred replies, extensions. Knows no handler."""
