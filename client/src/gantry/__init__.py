"""The Python SDK of Gantry and of RocketMQ's own broker: producers and consumers over remoting or HTTP, asyncio first."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gantry.consumer.lite.consumer import LitePullConsumer
    from gantry.consumer.pull.consumer import PullConsumer, PullResult, PullStatus
    from gantry.consumer.push.consumer import ConsumerState, PushConsumer
    from gantry.consumer.retrying.outcomes import ConsumeContext, ConsumeResult
    from gantry.consumer.shared.strategies import (
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
    from gantry.formats.compression import UnreadableBody
    from gantry.hooks import ConsumeCall, ConsumeHook, SendContext, SendHook
    from gantry.message import Message, MessageQueue, ReceivedMessage, SendResult, SendStatus
    from gantry.producer.batching.batches import BatchIncomplete, NotSent
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
    "gantry.formats.compression": "UnreadableBody",
    "gantry.consumer.lite.consumer": "LitePullConsumer",
    "gantry.consumer.retrying.outcomes": "ConsumeContext ConsumeResult",
    "gantry.consumer.pull.consumer": "PullConsumer PullResult PullStatus",
    "gantry.consumer.push.consumer": "ConsumerState PushConsumer",
    "gantry.consumer.shared.strategies": "Averagely AveragelyByCircle ByConfig ConsistentHash MachineRoom MachineRoomNearby Strategy",
    "gantry.errors": "ConfigurationError ConnectionFailed GantryError InvalidMessage NoRoute NotRunning Refused TimedOut",
    "gantry.hooks": "ConsumeCall ConsumeHook SendContext SendHook",
    "gantry.message": "Message MessageQueue ReceivedMessage SendResult SendStatus",
    "gantry.producer.batching.batches": "BatchIncomplete NotSent",
    "gantry.producer.producer": "Producer",
    "gantry.producer.replying": "reply_to",
    "gantry.producer.selectors": "Selector by_hash by_machine_room by_random",
    "gantry.producer.transactions": "TransactionListener TransactionProducer TransactionResult TransactionState",
    "gantry.settings": "ClientSettings",
    "gantry_wire.client_bodies": "ConsumeFromWhere MessageModel",
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
