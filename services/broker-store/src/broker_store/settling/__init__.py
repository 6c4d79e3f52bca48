"""Claim and settle: the one way out of a system queue. Items are decided once, and what results is appended in the same write."""
