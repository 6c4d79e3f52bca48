"""LitePullConsumer: reads queues ahead and gives messages when asked. Never calls a listener."""
