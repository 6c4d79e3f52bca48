"""PushConsumer: calls a listener, concurrently or in order. Never lets its user choose offsets."""
