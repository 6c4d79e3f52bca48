"""Producers: messages, batches, transactions and requests to brokers. Knows no consumer."""
