"""Queue locks: which consumer of a group may consume a queue in order. Never grants a queue to two."""
