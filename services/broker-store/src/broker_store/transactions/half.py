"""Half messages: what becomes of a transactional send on its way into the log. Adds properties and swaps the queue, no more.

A half lies in queue 0 of RMQ_SYS_TRANS_HALF_TOPIC with the client's own property bytes in front, and behind them its id, topic and
queue: RocketMQ's layout. Its sender is told the queue it asked for.
"""

from collections.abc import Callable

from broker_store.appends import Appends
from broker_store.delays.instants import due_ms
from broker_store.message import Message, Mode
from broker_store.ports import Peer
from broker_store.queues import QueueTable
from broker_store.special_sends import DELAYS, level_of
from broker_store.transactions.half_run import ArrivedHalf, HalfRun
from broker_store.transactions.recent_halves import HalfMessage, RecentHalves, named_of
from gantry_wire.codes import ResponseCode
from gantry_wire.command import Command
from gantry_wire.errors import RefusedRequest
from gantry_wire.limits import PROPERTIES_BYTES_MAX
from gantry_wire.names import HALF_TOPIC
from gantry_wire.properties import (
    GANTRY_KEY,
    GANTRY_SETTLED,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TRANSACTION_ID,
    TRANSACTION_PREPARED,
)
from gantry_wire.record import SYS_TRANSACTION_MASK

HALF_PROPERTIES_BYTES_MAX = PROPERTIES_BYTES_MAX - 64
"""Leaves room for the number of checks, which a later copy of the half carries."""

_NOT_ORDINARY = frozenset({*DELAYS, GANTRY_SETTLED, GANTRY_KEY})
"""Properties of a half that needs more than to be stored as one."""


class HalfSends:
    """Makes half messages of transactional sends."""

    def __init__(
        self, queues: QueueTable, appends: Appends, now_ms: Callable[[], int], horizon_ms: int
    ) -> None:
        self.recent = RecentHalves()
        self._appends = appends
        self._run: HalfRun | None = None
        self._queues = queues
        self._now_ms = now_ms
        self._horizon_ms = horizon_ms

    def take(self, peer: Peer, command: Command, message: Message, properties: dict[str, str]) -> bool:
        """Store the half of a message that is ready to be stored as plain; False where `prepare` has to see it. Raises RefusedRequest.

        Halves of one client that follow each other become one entry: that costs a third less than an entry each.
        """
        unique_key = message.unique_key
        if (
            properties.get(TRANSACTION_PREPARED) != "true"
            or not _NOT_ORDINARY.isdisjoint(properties)
            or not properties.get(PRODUCER_GROUP)
            or not (unique_key.isalnum() and unique_key.isascii())
        ):
            return False
        raw = _half_properties(message)
        if len(raw) > HALF_PROPERTIES_BYTES_MAX:
            return False
        half = ArrivedHalf(
            command.opaque, message.peer is None, message.queue.queue_id, message.flag,
            message.sys_flag & ~SYS_TRANSACTION_MASK, message.born_ms, message.reconsume_times, unique_key, message.keys,
            message.tags_code, message.body, raw, named_of(message, properties),
        )  # fmt: skip
        self._add(peer, Mode.EARLY if message.mode == Mode.ASYNC else message.mode, message.born_host, half)
        return True

    def _add(self, peer: Peer, mode: Mode, born_host: bytes, half: ArrivedHalf) -> None:
        """Put a half into the group commit, behind the one before it if that is of the same kind. Raises RefusedRequest."""
        run, body_size = self._run, len(half.body)
        if (
            run is not None
            and run.peer is peer
            and run.mode == mode
            and run.has_room(half)
            and self._appends.extend(run, body_size)
        ):
            run.add(half)
            return
        run = HalfRun(peer, born_host, mode, self._queues.open(HALF_TOPIC, 0), self.recent)
        run.add(half)
        self._appends.submit(run, body_size)
        self._run = run

    def prepare(self, message: Message, properties: dict[str, str]) -> Message:
        """Return the half of a message that is ready to be stored as plain. Raises RefusedRequest."""
        if not properties.get(PRODUCER_GROUP):
            raise RefusedRequest(
                ResponseCode.MESSAGE_ILLEGAL,
                f"a transactional message needs the property {PRODUCER_GROUP}: nobody could be asked about it",
            )
        if not DELAYS.isdisjoint(properties) and level_of(properties) <= 0:
            # The delay begins at the commit, but one that cannot be had is refused before anything depends on it.
            due_ms(properties, self._now_ms(), self._horizon_ms)
        raw = _half_properties(message)
        if len(raw) > HALF_PROPERTIES_BYTES_MAX:
            words = (
                f"the message properties have {len(raw)} bytes with those of its transaction, "
                f"the limit is {HALF_PROPERTIES_BYTES_MAX}"
            )
            raise RefusedRequest(ResponseCode.MESSAGE_ILLEGAL, words)
        half = HalfMessage(message, self._queues.open(HALF_TOPIC, 0), raw, properties, self.recent)
        half.sys_flag &= ~SYS_TRANSACTION_MASK
        return half


def _half_properties(message: Message) -> bytes:
    target = message.queue
    return (
        message.properties
        + f"{TRANSACTION_ID}\x01{message.unique_key}\x02{REAL_TOPIC}\x01{target.topic}\x02"
        f"{REAL_QUEUE_ID}\x01{target.queue_id}\x02".encode()
    )
