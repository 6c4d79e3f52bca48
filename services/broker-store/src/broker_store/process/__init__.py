"""Assembly and life of a store: parts, listeners, registration, disk care, orderly stop.

Never decides about a message.
"""
