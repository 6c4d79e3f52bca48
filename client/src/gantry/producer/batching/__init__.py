"""Many messages in one request: gathered, cut, sent, each with its own outcome. Never chooses a broker."""
