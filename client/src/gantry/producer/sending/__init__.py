"""One request: makes its frame, chooses its target, sends it, decides what a failure means. Never gathers messages of several calls."""
