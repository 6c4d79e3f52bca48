"""Sends: checks and completes messages, single, batched or with idempotency keys, and submits them to the group commit.

Never writes the log.
"""
