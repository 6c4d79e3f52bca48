"""Consumers over remoting: PushConsumer calls a listener; PullConsumer and LitePullConsumer return messages on request."""
