"""Recently visible halves, kept in memory: most are decided within milliseconds, without a read or a parse.

Caches what the log holds and never changes. Bounded. A half that is not here is read from the log.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from broker_store.commit.special_sends import DELAYS
from broker_store.transactions.half_outputs import real_queue_id
from gantry_wire.messages.properties import (
    CHECK_IMMUNITY_TIME,
    GANTRY_KEY,
    GANTRY_SETTLED,
    KEYS,
    PRODUCER_GROUP,
    REAL_TOPIC,
    TAGS,
    UNIQ_KEY,
    tags_code,
)
from gantry_wire.names import HALF_TOPIC, SCHEDULE_TOPIC
from gantry_wire.private_requests.transactions import BEGUN_PROPERTY
from gantry_wire.records.message_record import (
    SYS_BORN_HOST_V6,
    SYS_STORE_HOST_V6,
    SYS_TRANSACTION_MASK,
    Record,
)

GENERATION_HALVES_MAX = 4096
GENERATION_BYTES_MAX = 4 * 1024 * 1024
"""Two generations are kept. When the newer one is full, the older one is dropped."""
NOT_ORDINARY = frozenset({*DELAYS, GANTRY_SETTLED, GANTRY_KEY, CHECK_IMMUNITY_TIME, BEGUN_PROPERTY})
"""Properties of a half that is not stored plainly, or whose message differs from it."""
KEPT_FLAGS = ~(SYS_TRANSACTION_MASK | SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6)
_HALF_TOPIC = HALF_TOPIC.encode()
_END = b"\x02"


class HalfKind(NamedTuple):
    """What halves of one producer group for one queue share."""

    group: str
    topic: str
    queue_id: int


class Half(NamedTuple):
    """An ordinary half with what a decision needs, including the properties that its message keeps."""

    kind: HalfKind
    offset: int
    position: int
    size: int
    unique_key: str
    """Letters and digits only."""
    keys: str | None
    tags_code: int
    flag: int
    sys_flag: int
    """Without the bits of transactions and hosts."""
    born_ms: int
    born_host: bytes
    reconsume_times: int
    body: bytes
    body_crc: int
    properties: bytes
    """They end with a separator and contain no mark."""


new_half = cast("Callable[[type[Half], tuple[Any, ...]], Half]", tuple.__new__)


def is_ordinary(named: dict[str, str]) -> bool:
    """Whether a half with these properties takes the fast path, as does its message."""
    key = named.get(UNIQ_KEY, "")
    return bool(
        NOT_ORDINARY.isdisjoint(named) and named.get(PRODUCER_GROUP) and key.isalnum() and key.isascii()
    )


def ordinary_half(record: Record, named: dict[str, str]) -> Half | None:
    """Return a half read from the log, None when it is not ordinary."""
    topic, queue_id = named.get(REAL_TOPIC, ""), real_queue_id(named)
    if record.topic != _HALF_TOPIC or not is_ordinary(named) or not record.properties.endswith(_END):
        return None
    if not topic or topic == SCHEDULE_TOPIC or queue_id < 0:
        return None
    tag = named.get(TAGS)
    return Half(
        HalfKind(named[PRODUCER_GROUP], topic, queue_id), record.queue_offset, record.position, record.size,
        named[UNIQ_KEY], named.get(KEYS), tags_code(tag) if tag else 0, record.flag, record.sys_flag & KEPT_FLAGS,
        record.born_timestamp, record.born_host, record.reconsume_times, record.body, record.body_crc, record.properties,
    )  # fmt: skip


class RecentHalves:
    """Halves by log position."""

    def __init__(self) -> None:
        self._newer: dict[int, Half] = {}
        self._older: dict[int, Half] = {}
        self._newer_bytes = 0

    def add_all(self, halves: Sequence[Half]) -> None:
        """Keep visible halves of one run of sends."""
        size = sum([half.size for half in halves])
        if len(self._newer) >= GENERATION_HALVES_MAX or self._newer_bytes >= GENERATION_BYTES_MAX:
            self._older, self._newer, self._newer_bytes = self._newer, {}, 0
        if size <= GENERATION_BYTES_MAX:
            self._newer.update([(half.position, half) for half in halves])
            self._newer_bytes += size

    def take(self, position: int) -> Half | None:
        """Return the half at a position and forget it: a second decision is rare and may read the log."""
        return self._newer.pop(position, None) or self._older.pop(position, None)
