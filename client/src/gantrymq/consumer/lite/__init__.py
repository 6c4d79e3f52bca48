"""LitePullConsumer: prefetches from queues and returns messages on request. Never calls a listener."""
