"""Consumers over remoting: PushConsumer has a function called, PullConsumer and LitePullConsumer are asked for messages."""
