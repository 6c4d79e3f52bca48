"""Failed messages: which are delivered again, when, and how they return to the broker. Never calls a listener."""
