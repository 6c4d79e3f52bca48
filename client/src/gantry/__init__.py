"""The Python SDK of Gantry, and of RocketMQ's own broker: producers and consumers over remoting or HTTP, asyncio first."""

from gantry.consumer.hooks import ConsumeCall, ConsumeHook
from gantry.consumer.lite import LitePullConsumer
from gantry.consumer.outcomes import ConsumeContext, ConsumeResult
from gantry.consumer.pull import PullConsumer, PullResult, PullStatus
from gantry.consumer.push import ConsumerState, PushConsumer
from gantry.consumer.strategies import (
    Averagely,
    AveragelyByCircle,
    ByConfig,
    ConsistentHash,
    MachineRoom,
    MachineRoomNearby,
    Strategy,
)
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
from gantry_wire.client_bodies import ConsumeFromWhere, MessageModel

__all__ = [
    "Averagely",
    "AveragelyByCircle",
    "BatchIncomplete",
    "ByConfig",
    "ClientSettings",
    "ConfigurationError",
    "ConnectionFailed",
    "ConsistentHash",
    "ConsumeCall",
    "ConsumeContext",
    "ConsumeFromWhere",
    "ConsumeHook",
    "ConsumeResult",
    "ConsumerState",
    "GantryError",
    "InvalidMessage",
    "LitePullConsumer",
    "MachineRoom",
    "MachineRoomNearby",
    "Message",
    "MessageModel",
    "MessageQueue",
    "NoRoute",
    "NotRunning",
    "Producer",
    "PullConsumer",
    "PullResult",
    "PullStatus",
    "PushConsumer",
    "ReceivedMessage",
    "Refused",
    "Selector",
    "SendContext",
    "SendHook",
    "SendResult",
    "SendStatus",
    "Strategy",
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
