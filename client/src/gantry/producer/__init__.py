"""Producers: messages, batches, transactions and requests to brokers. Never knows a consumer."""
