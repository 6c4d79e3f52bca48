"""Messages that failed: which come again, when, and how they go back to the broker. Never calls a listener."""
