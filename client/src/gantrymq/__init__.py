"""The Python SDK of Gantry and of RocketMQ's own broker: producers and consumers over remoting or HTTP, asyncio first."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gantry_wire.bodies.clients import ConsumeFromWhere, MessageModel
    from gantrymq.consumer.lite.consumer import LitePullConsumer
    from gantrymq.consumer.pull.consumer import PullConsumer, PullResult, PullStatus
    from gantrymq.consumer.push.consumer import ConsumerState, PushConsumer
    from gantrymq.consumer.retrying.outcomes import ConsumeContext, ConsumeResult
    from gantrymq.consumer.shared.strategies import (
        Averagely,
        AveragelyByCircle,
        ByConfig,
        ConsistentHash,
        MachineRoom,
        MachineRoomNearby,
        Strategy,
    )
    from gantrymq.errors import (
        ConfigurationError,
        ConnectionFailed,
        GantryError,
        InvalidMessage,
        NoRoute,
        NotRunning,
        Refused,
        TimedOut,
    )
    from gantrymq.formats.compression import UnreadableBody
    from gantrymq.hooks import ConsumeCall, ConsumeHook, SendContext, SendHook
    from gantrymq.message import Message, MessageQueue, ReceivedMessage, SendResult, SendStatus
    from gantrymq.producer.batching.batches import BatchIncomplete, NotSent
    from gantrymq.producer.producer import Producer
    from gantrymq.producer.replying import reply_to
    from gantrymq.producer.selectors import Selector, by_hash, by_machine_room, by_random
    from gantrymq.producer.transactions import (
        TransactionListener,
        TransactionProducer,
        TransactionResult,
        TransactionState,
    )
    from gantrymq.settings import ClientSettings

__version__ = "0.1.0"
"""The version of the SDK and of its command line; the package takes it from here."""

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
    "NotSent",
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
    "UnreadableBody",
    "by_hash",
    "by_machine_room",
    "by_random",
    "reply_to",
]

_PLACES = {
    "gantrymq.formats.compression": "UnreadableBody",
    "gantrymq.consumer.lite.consumer": "LitePullConsumer",
    "gantrymq.consumer.retrying.outcomes": "ConsumeContext ConsumeResult",
    "gantrymq.consumer.pull.consumer": "PullConsumer PullResult PullStatus",
    "gantrymq.consumer.push.consumer": "ConsumerState PushConsumer",
    "gantrymq.consumer.shared.strategies": "Averagely AveragelyByCircle ByConfig ConsistentHash MachineRoom MachineRoomNearby Strategy",
    "gantrymq.errors": "ConfigurationError ConnectionFailed GantryError InvalidMessage NoRoute NotRunning Refused TimedOut",
    "gantrymq.hooks": "ConsumeCall ConsumeHook SendContext SendHook",
    "gantrymq.message": "Message MessageQueue ReceivedMessage SendResult SendStatus",
    "gantrymq.producer.batching.batches": "BatchIncomplete NotSent",
    "gantrymq.producer.producer": "Producer",
    "gantrymq.producer.replying": "reply_to",
    "gantrymq.producer.selectors": "Selector by_hash by_machine_room by_random",
    "gantrymq.producer.transactions": "TransactionListener TransactionProducer TransactionResult TransactionState",
    "gantrymq.settings": "ClientSettings",
    "gantry_wire.bodies.clients": "ConsumeFromWhere MessageModel",
}
"""The module of each name. Modules are loaded on first use: a command or a program over HTTP needs few of them (0.2 s of CPU for all)."""
_MODULES = {name: module for module, names in _PLACES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Load a public name, or a module of the package."""
    if name in _MODULES:
        value = getattr(import_module(_MODULES[name]), name)
    elif not name.startswith("_") and find_spec(f"{__name__}.{name}") is not None:
        value = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value
