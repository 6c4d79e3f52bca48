"""When a delayed message is due: asks the store to settle it then. Owns no truth: its index is rebuilt from the log."""
