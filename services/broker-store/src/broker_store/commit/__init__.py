"""Group commit: the entries of one turn are written together, flushed together, shown and answered. Owns topics and queues; the only writer of the log."""
