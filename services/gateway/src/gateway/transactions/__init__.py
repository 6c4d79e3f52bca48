"""Transactions: half messages, decisions, lists. Never decides a transaction itself."""
