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
from gantry.message import Message, MessageQueue, ReceivedMessage, SendResult, SendStatus
from gantry.settings import ClientSettings

__all__ = [
    "ClientSettings",
    "ConfigurationError",
    "ConnectionFailed",
    "GantryError",
    "InvalidMessage",
    "Message",
    "MessageQueue",
    "NoRoute",
    "NotRunning",
    "ReceivedMessage",
    "Refused",
    "SendResult",
    "SendStatus",
    "TimedOut",
]
