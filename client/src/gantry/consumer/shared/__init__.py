"""What push and lite consumers have in common: subscriptions, shares, pulls, offsets, queues in hand. Never calls a listener."""
