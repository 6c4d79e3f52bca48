"""PushConsumer: calls a listener, concurrently or in order. The group, not the user, decides the offsets."""
