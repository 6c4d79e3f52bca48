"""The common part of push and lite consumers: subscriptions, sharing, pulls, offsets, assigned queues. Never calls a listener."""
