"""Which brokers exist, which hold a topic, and which process serves a broker. Never reads a request."""
