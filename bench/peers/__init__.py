"""Other brokers, and their clients, at the same work."""
