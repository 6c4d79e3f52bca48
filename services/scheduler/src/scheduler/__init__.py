"""The scheduler asks the stores to settle delayed messages when they are due. Its index is rebuilt from the log."""
