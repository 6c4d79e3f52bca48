"""Messages that a consumer wants again: when they come back, how often, and what becomes of them when the tries are used up."""
