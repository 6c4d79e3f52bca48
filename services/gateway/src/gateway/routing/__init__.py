"""Which brokers exist, which hold a topic, and which process works for a broker. Never reads a request."""
