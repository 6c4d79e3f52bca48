"""A store's directory as files: its content, the end of its log, a snapshot that keeps it readable. Never writes to a store; independent of Spark."""
