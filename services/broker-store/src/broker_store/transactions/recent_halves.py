"""The halves that became visible last, as their sends left them: most are decided within milliseconds, without a read or a parse.

A copy of what lies in the log and never changes there. Bounded; what is not here any more is read.
"""

from broker_store.message import Arrivals, IndexEntry, Message, Placement
from broker_store.queues import Queue
from broker_store.special_message import SpecialMessage
from gantry_wire.properties import REAL_QUEUE_ID, REAL_TOPIC, UNIQ_KEY
from gantry_wire.record import MAGIC_V1, Record

GENERATION_HALVES_MAX = 4096
GENERATION_BYTES_MAX = 4 * 1024 * 1024
"""Two generations are kept: when the newer one is full, the older one is forgotten."""


RecentHalf = tuple[Record, dict[str, str]]
"""A half, and its properties by name."""


class RecentHalves:
    """Halves by log position."""

    def __init__(self) -> None:
        self._newer: dict[int, RecentHalf] = {}
        self._older: dict[int, RecentHalf] = {}
        self._newer_bytes = 0

    def add(self, half: RecentHalf) -> None:
        """Keep a half that is visible."""
        if len(self._newer) >= GENERATION_HALVES_MAX or self._newer_bytes >= GENERATION_BYTES_MAX:
            self._older, self._newer, self._newer_bytes = self._newer, {}, 0
        record = half[0]
        if record.size <= GENERATION_BYTES_MAX:
            self._newer[record.position] = half
            self._newer_bytes += record.size

    def take(self, position: int) -> RecentHalf | None:
        """Return the half at a position and forget it: who decides it again is rare enough to read it."""
        return self._newer.pop(position, None) or self._older.pop(position, None)


def named_of(message: Message, named: dict[str, str]) -> dict[str, str]:
    """Return the properties of a message's half by name, from those its sender gave."""
    target = message.queue
    return {
        **named,
        UNIQ_KEY: message.unique_key,
        REAL_TOPIC: target.topic,
        REAL_QUEUE_ID: str(target.queue_id),
    }


class HalfMessage(SpecialMessage):
    """A half on its way into the log."""

    __slots__ = ("_body", "_named", "_raw", "_recent", "_store_host")

    def __init__(
        self, message: Message, queue: Queue, properties: bytes, named: dict[str, str], recent: RecentHalves
    ) -> None:
        """`named`: the properties its sender gave, by name."""
        super().__init__(message, queue, properties)
        self._recent = recent
        self._body, self._raw = message.body, properties
        self._named = named_of(message, named)
        self._store_host = b""

    def place(self, at: Placement) -> None:
        """See Entry."""
        super().place(at)
        self._store_host = at.store_host

    def appear(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        """See Entry."""
        super().appear(index, arrivals)
        queue = self.queue
        fields = (
            self.size, MAGIC_V1, 0, queue.queue_id, self.flag, self.offset, self.position, self.sys_flag,
            self.born_ms, self.born_host, self.store_ms, self._store_host, self.reconsume_times, 0,
            self._body, queue.topic_bytes, self._raw,
        )  # fmt: skip
        self._recent.add((Record._make(fields), self._named))
        self._body = self._raw = b""
