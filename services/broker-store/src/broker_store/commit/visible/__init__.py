"""How placed records become readable: units of queues, keys of the index, arrivals for waiting readers, and who listens."""
