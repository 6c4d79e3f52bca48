"""Sends: checks and completes messages, single, in batches and with idempotency keys, and hands them to the group commit. Never writes by itself."""
