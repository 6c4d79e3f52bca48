"""The SDK without asyncio: the same names and arguments, called from any thread. An event loop in a thread of its own does the work: never the caller's thread."""

from gantry.blocking.consumers import LitePullConsumer, PullConsumer, PushConsumer
from gantry.blocking.producer import Producer, TransactionProducer

__all__ = ["LitePullConsumer", "Producer", "PullConsumer", "PushConsumer", "TransactionProducer"]
