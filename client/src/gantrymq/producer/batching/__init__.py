"""Several messages in one request: batched, split, sent, each with its own outcome. Never chooses a broker."""
