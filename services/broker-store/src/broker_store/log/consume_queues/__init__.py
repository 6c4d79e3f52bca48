"""ConsumeQueues: 20-byte units in files of fixed size, and the journal of units that are not durable there yet."""
