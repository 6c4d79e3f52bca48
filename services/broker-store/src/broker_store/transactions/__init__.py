"""Transactions in the store: half messages, decisions about them, and queries about both. Never decides one by itself."""
