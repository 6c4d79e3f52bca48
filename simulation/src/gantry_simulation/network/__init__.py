"""A network in memory: connections, listeners, transports, and what goes wrong between processes."""
