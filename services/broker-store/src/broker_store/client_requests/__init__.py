"""Requests the store sends to clients for others: offset resets, relays, replies.

Never decides what a client does with them.
"""
