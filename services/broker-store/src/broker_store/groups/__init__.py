"""Consumer groups, their clients, committed offsets and queue locks."""
