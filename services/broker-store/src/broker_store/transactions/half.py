"""Half messages: what becomes of a transactional send on its way into the log. Adds properties and swaps the queue, no more.

A half lies in queue 0 of RMQ_SYS_TRANS_HALF_TOPIC with the client's own property bytes in front, and behind them its id, topic and
queue: RocketMQ's layout. Its sender is told the queue it asked for.
"""

from broker_store.message import FSYNC_FIELD, WRITTEN_FIELD, Message, Mode, Placement
from broker_store.queues import QueueTable
from gantry_wire.codes import ResponseCode
from gantry_wire.encode import encode_send_reply
from gantry_wire.errors import RefusedRequest
from gantry_wire.ids import offset_message_id
from gantry_wire.limits import PROPERTIES_BYTES_MAX
from gantry_wire.names import HALF_TOPIC
from gantry_wire.properties import PRODUCER_GROUP, REAL_QUEUE_ID, REAL_TOPIC, TRANSACTION_ID
from gantry_wire.record import SYS_TRANSACTION_MASK

HALF_PROPERTIES_BYTES_MAX = PROPERTIES_BYTES_MAX - 64
"""Leaves room for the number of checks, which a later copy of the half carries."""


class HalfSends:
    """Makes half messages of transactional sends."""

    def __init__(self, queues: QueueTable) -> None:
        self._queues = queues

    def prepare(self, message: Message, properties: dict[str, str]) -> Message:
        """Return the half of a message that is ready to be stored as plain. Raises RefusedRequest."""
        if not properties.get(PRODUCER_GROUP):
            raise RefusedRequest(
                ResponseCode.MESSAGE_ILLEGAL,
                f"a transactional message needs the property {PRODUCER_GROUP}: nobody could be asked about it",
            )
        target = message.queue
        raw = (
            message.properties
            + f"{TRANSACTION_ID}\x01{message.unique_key}\x02{REAL_TOPIC}\x01{target.topic}\x02"
            f"{REAL_QUEUE_ID}\x01{target.queue_id}\x02".encode()
        )
        if len(raw) > HALF_PROPERTIES_BYTES_MAX:
            words = (
                f"the message properties have {len(raw)} bytes with those of its transaction, "
                f"the limit is {HALF_PROPERTIES_BYTES_MAX}"
            )
            raise RefusedRequest(ResponseCode.MESSAGE_ILLEGAL, words)
        half = HalfMessage(
            self._queues.open(HALF_TOPIC, 0),
            message.body,
            raw,
            message.tags_code,
            message.unique_key,
            message.keys,
            message.mode,
            message.peer,
            message.opaque,
            message.flag,
            message.sys_flag & ~SYS_TRANSACTION_MASK,
            message.born_ms,
            message.born_host,
            message.reconsume_times,
        )
        half.target_queue_id = target.queue_id
        return half


class HalfMessage(Message):
    """A half on its way into the log."""

    __slots__ = ("target_queue_id",)

    target_queue_id: int

    def answer(self, at: Placement, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        """Tell the sender where the half lies, and the queue that it asked for: where the message will go."""
        if code or self.peer is None:
            super().answer(at, code)
            return
        peer, self.peer = self.peer, None
        extra = FSYNC_FIELD if self.mode == Mode.SYNC else WRITTEN_FIELD
        message_id = offset_message_id(at.store_host, self.position)
        peer.send(
            encode_send_reply(
                self.opaque, message_id, self.target_queue_id, self.offset, self.unique_key, extra
            )
        )
