"""Consumer groups, their clients, committed offsets and queue locks. Never reads or writes a message."""
