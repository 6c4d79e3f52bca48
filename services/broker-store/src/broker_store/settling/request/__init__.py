"""One settle request: when it is decided, its items as the log has them, the rules, and the records that result."""
