"""Producers: messages, batches, transactions and requests. Independent of consumers."""
