"""Consumers over remoting: PushConsumer calls a function, PullConsumer and LitePullConsumer are asked for messages. Never keeps a connection of its own."""
