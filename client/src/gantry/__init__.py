"""The Python SDK of Gantry, and of RocketMQ's own broker: producers and consumers over remoting or HTTP, asyncio first."""

from gantry.errors import (
    ConfigurationError,
    ConnectionFailed,
    GantryError,
    InvalidMessage,
    NoRoute,
    NotRunning,
    Refused,
    TimedOut,
)
from gantry.hooks import SendContext, SendHook
from gantry.message import Message, MessageQueue, ReceivedMessage, SendResult, SendStatus
from gantry.producer.batches import BatchIncomplete
from gantry.producer.producer import Producer
from gantry.producer.replying import reply_to
from gantry.producer.selectors import Selector, by_hash, by_machine_room, by_random
from gantry.producer.transactions import (
    TransactionListener,
    TransactionProducer,
    TransactionResult,
    TransactionState,
)
from gantry.settings import ClientSettings

__all__ = [
    "BatchIncomplete",
    "ClientSettings",
    "ConfigurationError",
    "ConnectionFailed",
    "GantryError",
    "InvalidMessage",
    "Message",
    "MessageQueue",
    "NoRoute",
    "NotRunning",
    "Producer",
    "ReceivedMessage",
    "Refused",
    "Selector",
    "SendContext",
    "SendHook",
    "SendResult",
    "SendStatus",
    "TimedOut",
    "TransactionListener",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
    "by_hash",
    "by_machine_room",
    "by_random",
    "reply_to",
]
