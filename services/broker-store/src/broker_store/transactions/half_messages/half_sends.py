"""Half messages: turns a transactional send into its half. Adds properties and changes the queue. Never changes the body.

A half lies in queue 0 of RMQ_SYS_TRANS_HALF_TOPIC. The client's own property bytes come first, then its id,
topic and queue: RocketMQ's layout. The sender's answer names the queue it requested.
"""

from collections.abc import Callable

from broker_store.commit.appends import Appends
from broker_store.commit.message import Arrivals, IndexEntry, Message, Mode
from broker_store.commit.queues import Queue, QueueTable
from broker_store.commit.record_writer import Row, whole_row
from broker_store.commit.special_message import SpecialMessage
from broker_store.commit.special_sends import DELAYS, level_of
from broker_store.commit.targets import Target
from broker_store.ports import Peer
from broker_store.sending.plain_sends import BORN_HOST, born_host
from broker_store.transactions.half_copies import HalfCopies, transaction_of
from broker_store.transactions.half_messages.half_run import HalfRun
from broker_store.transactions.half_messages.known_halves import KnownHalves
from broker_store.transactions.half_messages.recent_halves import (
    KEPT_FLAGS,
    HalfKind,
    RecentHalves,
    is_ordinary,
)
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import FLAG_ONEWAY, Command
from gantry_wire.headers.messages import SendHeader
from gantry_wire.limits import PROPERTIES_BYTES_MAX
from gantry_wire.messages.properties import (
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TRANSACTION_ID,
    TRANSACTION_PREPARED,
)
from gantry_wire.names import HALF_TOPIC
from gantry_wire.records.message_record import SYS_TRANSACTION_MASK

HALF_PROPERTIES_BYTES_MAX = PROPERTIES_BYTES_MAX - 64
"""Leaves room for the number of checks, which a later copy of the half carries."""


class HalfSends:
    """Makes half messages from transactional sends."""

    def __init__(
        self,
        queues: QueueTable,
        appends: Appends,
        copies: HalfCopies,
        check_delay: Callable[[dict[str, str]], None],
    ) -> None:
        """`check_delay` raises RefusedRequest for an impossible delay."""
        self.recent = RecentHalves()
        self._copies = copies
        self._appends = appends
        self._run: HalfRun | None = None
        self._known = KnownHalves()
        self._queues = queues
        self._check_delay = check_delay

    def take_known(self, peer: Peer, command: Command, header: SendHeader, target: Target, text: str) -> bool:
        """Store a half like an earlier one, given its unparsed properties.

        False when they must be parsed. Raises RefusedRequest.
        """
        found = self._known.find(header, target, text)
        if found is None:
            return False
        shape, unique_key = found
        key = unique_key.encode()
        raw = b"".join((shape.head, key, shape.middle, key, shape.tail))
        if len(raw) > HALF_PROPERTIES_BYTES_MAX:
            return False
        row = whole_row(
            self._queues.open(HALF_TOPIC, 0), command.body, raw, header.flag, header.sys_flag & KEPT_FLAGS,
            header.born_timestamp, header.reconsume_times or 0, 0, shape.tags_code, unique_key, shape.keys,
            None if command.flag & FLAG_ONEWAY else command.opaque,
        )  # fmt: skip
        self._add(peer, shape.mode, shape.kind, row)
        return True

    def take(
        self, peer: Peer, command: Command, header: SendHeader, target: Target, message: Message,
        properties: dict[str, str],
    ) -> bool:  # fmt: skip
        """Store the half of a message that is ready to be stored as plain. Raises RefusedRequest.

        Returns False when `prepare` must handle it. Consecutive halves of one client become one entry,
        which costs a third less than an entry each.
        """
        if properties.get(TRANSACTION_PREPARED) != "true" or not is_ordinary(properties):
            return False
        raw = _half_properties(message)
        if len(raw) > HALF_PROPERTIES_BYTES_MAX:
            return False
        kind = HalfKind(properties[PRODUCER_GROUP], message.queue.topic, message.queue.queue_id)
        mode = Mode.EARLY if message.mode == Mode.ASYNC else message.mode
        self._known.note(header, target, kind, mode, message, raw)
        row = whole_row(
            self._queues.open(HALF_TOPIC, 0), message.body, raw, message.flag, message.sys_flag & KEPT_FLAGS, message.born_ms,
            message.reconsume_times, 0, message.tags_code, message.unique_key, message.keys,
            None if message.peer is None else command.opaque,
        )  # fmt: skip
        self._add(peer, mode, kind, row)
        return True

    def _add(self, peer: Peer, mode: Mode, kind: HalfKind, row: Row) -> None:
        """Add a half to the group commit, to the previous run if it matches. Raises RefusedRequest."""
        run, body_size = self._run, len(row[8][0])
        if (
            run is not None
            and run.peer is peer
            and run.mode == mode
            and run.has_room(row[7])
            and self._appends.extend(run, body_size)
        ):
            run.add(kind, row)
            return
        host = peer.attributes.get(BORN_HOST) or born_host(peer)
        run = HalfRun(peer, host, mode, self.recent, self._copies)
        run.add(kind, row)
        self._appends.submit(run, body_size)
        self._run = run

    def prepare(self, message: Message, properties: dict[str, str]) -> Message:
        """Return the half of a message that is ready to be stored as plain. Raises RefusedRequest."""
        if not properties.get(PRODUCER_GROUP):
            raise RefusedRequest(
                ResponseCode.MESSAGE_ILLEGAL,
                f"a transactional message needs the property {PRODUCER_GROUP}: without it no producer can be checked",
            )
        if not DELAYS.isdisjoint(properties) and level_of(properties) <= 0:
            # The delay begins at the commit, but an impossible one is refused before anything depends on
            # it.
            self._check_delay(properties)
        raw = _half_properties(message)
        if len(raw) > HALF_PROPERTIES_BYTES_MAX:
            remark = (
                f"the message properties have {len(raw)} bytes with those of its transaction, "
                f"the limit is {HALF_PROPERTIES_BYTES_MAX}"
            )
            raise RefusedRequest(ResponseCode.MESSAGE_ILLEGAL, remark)
        half = _Half(message, self._queues.open(HALF_TOPIC, 0), raw, self._copies)
        half.sys_flag &= ~SYS_TRANSACTION_MASK
        return half


class _Half(SpecialMessage):
    """A half that is an entry by itself."""

    __slots__ = ("_copies", "_transaction")

    def __init__(self, message: Message, queue: Queue, properties: bytes, copies: HalfCopies) -> None:
        super().__init__(message, queue, properties)
        self._copies = copies
        self._transaction = transaction_of(properties)

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        super().make_visible(index, arrivals)
        if self._transaction is not None:
            self._copies.seen(self.offset, self._transaction)


def _half_properties(message: Message) -> bytes:
    target = message.queue
    return (
        message.properties
        + f"{TRANSACTION_ID}\x01{message.unique_key}\x02{REAL_TOPIC}\x01{target.topic}\x02"
        f"{REAL_QUEUE_ID}\x01{target.queue_id}\x02".encode()
    )
