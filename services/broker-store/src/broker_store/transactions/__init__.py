"""Transactions of the store: half messages in, decisions about them, and questions about both. Decides none by itself."""
