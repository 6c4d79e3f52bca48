"""What clients do over HTTP, by subject."""
