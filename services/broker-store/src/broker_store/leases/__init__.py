"""Receive and acknowledge: leases of messages per group, topic and queue, kept in memory, with acknowledgements in the log."""
