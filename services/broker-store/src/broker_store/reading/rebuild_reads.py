"""Reads while the store rebuilds its queues: serves pulls of what is rebuilt, and refuses what needs every queue."""

from typing import Protocol

from broker_store.ports import Commands, Handler, Peer
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.headers.messages import PullHeader

PULLS = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
WHOLE = frozenset(
    {
        RequestCode.VIEW_MESSAGE_BY_ID,
        RequestCode.QUERY_MESSAGE,
        RequestCode.HEART_BEAT,
        RequestCode.UNREGISTER_CLIENT,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.GET_BROKER_CONFIG,
    }
)
"""Commands that are correct, or refuse by themselves, while queues are incomplete."""


class Ends(Protocol):
    """The rebuilt end of a queue."""

    @property
    def max_offset(self) -> int:
        """One above its newest offset."""
        ...


class FindQueue(Protocol):
    """Finds a queue."""

    def __call__(self, topic: str, queue_id: int, /) -> Ends | None:
        """Return the queue, None when nothing of it is rebuilt yet."""
        ...


def rebuild_commands(serving: Commands, find_queue: FindQueue) -> Commands:
    """Return the command table during a rebuild. `serving` is the table used after it."""
    table: Commands = {}
    for code, (class_name, handler) in serving.items():
        if code in PULLS:
            table[code] = (class_name, _Guarded(handler, find_queue))
        else:
            table[code] = (class_name, handler if code in WHOLE else _refuse)
    return table


class _Guarded:
    """A pull of rebuilt messages. Beyond them it must not be answered with a wrong offset: the client would go back."""

    def __init__(self, pull: Handler, find_queue: FindQueue) -> None:
        self._pull = pull
        self._find_queue = find_queue

    def __call__(self, peer: Peer, command: Command) -> bytes | None:
        header = command.read(PullHeader)
        queue = self._find_queue(header.topic, header.queue_id)
        if queue is None or header.queue_offset >= queue.max_offset:
            raise RefusedRequest(
                ResponseCode.SYSTEM_BUSY,
                f"queue {header.queue_id} of topic[{header.topic}] is being rebuilt and has not reached offset "
                f"{header.queue_offset}; try again in a moment",
            )
        return self._pull(peer, command)


def _refuse(_peer: Peer, _command: Command) -> bytes | None:
    raise RefusedRequest(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "the queues of this store are being rebuilt: only pulls are served; try again in a moment",
        {"gantryCode": "NOT_SERVING"},
    )
