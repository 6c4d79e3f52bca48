"""The index of message keys, in RocketMQ's files. Derived from the log."""
