"""Half messages: what becomes of a transactional send on its way into the log. Adds properties and swaps the queue, no more.

A half lies in queue 0 of RMQ_SYS_TRANS_HALF_TOPIC with the client's own property bytes in front, and behind them its id, topic and
queue: RocketMQ's layout. Its sender is told the queue it asked for.
"""

from collections.abc import Callable

from broker_store.delays.instants import due_ms
from broker_store.message import Message
from broker_store.queues import QueueTable
from broker_store.special_sends import DELAYS, level_of
from broker_store.transactions.recent_halves import HalfMessage, RecentHalves
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.limits import PROPERTIES_BYTES_MAX
from gantry_wire.names import HALF_TOPIC
from gantry_wire.properties import PRODUCER_GROUP, REAL_QUEUE_ID, REAL_TOPIC, TRANSACTION_ID
from gantry_wire.record import SYS_TRANSACTION_MASK

HALF_PROPERTIES_BYTES_MAX = PROPERTIES_BYTES_MAX - 64
"""Leaves room for the number of checks, which a later copy of the half carries."""


class HalfSends:
    """Makes half messages of transactional sends."""

    def __init__(self, queues: QueueTable, now_ms: Callable[[], int], horizon_ms: int) -> None:
        self.recent = RecentHalves()
        self._queues = queues
        self._now_ms = now_ms
        self._horizon_ms = horizon_ms

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
        half = HalfMessage(message, self._queues.open(HALF_TOPIC, 0), raw, properties, self.recent)
        half.sys_flag &= ~SYS_TRANSACTION_MASK
        return half
