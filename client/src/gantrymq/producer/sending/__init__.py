"""A single request: makes its frame, chooses its target, sends it, handles failures. Never batches messages of several calls."""
