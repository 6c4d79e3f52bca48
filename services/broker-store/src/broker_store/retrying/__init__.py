"""Messages that a consumer sends back: when they are retried, how often, and when they become dead letters.

Never loses one on the way.
"""
