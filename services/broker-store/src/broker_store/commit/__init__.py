"""Group commit: writes and flushes the entries of one turn together, then makes them visible and answers them.

Owns topics and queues. It is the only writer of the log, and it never interprets a message.
"""
