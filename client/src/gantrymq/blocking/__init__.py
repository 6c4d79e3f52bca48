"""The SDK without asyncio: the same names and arguments, callable from any thread. An event loop in its own thread does the work."""

from gantrymq.blocking.consumers import LitePullConsumer, PullConsumer, PushConsumer
from gantrymq.blocking.producer import Producer, TransactionProducer

__all__ = ["LitePullConsumer", "Producer", "PullConsumer", "PushConsumer", "TransactionProducer"]
