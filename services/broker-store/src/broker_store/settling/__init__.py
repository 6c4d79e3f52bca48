"""Claim and settle: the only way out of a system queue.

An item is decided once, and its outputs are appended in the same write.
"""
