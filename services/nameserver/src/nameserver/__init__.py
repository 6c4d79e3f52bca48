"""Tracks living brokers and the topic queues they own. Soft state, rebuilt from registrations. Stores no messages."""
