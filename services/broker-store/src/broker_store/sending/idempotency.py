"""The idempotency window: which keyed sends were stored recently, and where. Pure: callers pass records and `now`.

A key is identified by a 16-byte digest of topic and key. One remembered send costs 48 bytes in a ring
ordered by store time, and at most 16 bytes in a table of ring places. Both tables are allocated whole at
the first key and become real memory as they fill. Nothing is ever moved, so no send waits for a table to
grow.
"""

from collections.abc import Callable
from enum import Enum
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple
from zlib import crc32

ENTRY = Struct(">16sIqqqi")
"""digest, content CRC, store time (ms), position, queue offset, queue id."""
ENTRY_BYTES = ENTRY.size
_DIGEST_BYTES = 16
_STORE_MS, _STORE_MS_AT = Struct(">q"), 20
_EMPTY = 0
_SLOTS_PER_KEY = 2

Before = Callable[[int, int], int]
"""Returns the store time that lies `ms` before another one."""

IGNORED_IN_CONTENT = frozenset(
    {
        "UNIQ_KEY",
        "WAIT",
        "MSG_REGION",
        "TRACE_ON",
        "CLUSTER",
        "traceparent",
        "tracestate",
        "__BORNHOST",
        "BORN_TIMESTAMP",
        "INSTANCE_ID",
        "REAL_TOPIC",
        "REAL_QID",
        "TIMER_OUT_MS",
        "__GANTRY_DELAY_MS",
        "__transactionId__",
    }
)
"""Properties that differ between two attempts to send the same message, or that the store adds to a waiting one."""


class Remembered(NamedTuple):
    """The first message stored under a key."""

    digest: bytes
    content_crc: int
    store_ms: int
    position: int
    queue_offset: int
    queue_id: int


class Verdict(Enum):
    """Result of judging a keyed send."""

    NEW = "new"
    REPEAT = "repeat"
    CONFLICT = "conflict"


def key_digest(topic: str, key: str) -> bytes:
    """Return a key's digest. Topics do not share keys."""
    return blake2b(f"{topic}\0{key}".encode(), digest_size=16).digest()


def content_crc(body_crc: int, properties: dict[str, str]) -> int:
    """Return a CRC over the message's identity: its body (by the CRC in its record) and its sender's properties, in any order."""
    chosen = [item for item in properties.items() if item[0] not in IGNORED_IN_CONTENT]
    if len(chosen) == 1:  # only the key, the usual case
        name, value = chosen[0]
        return crc32(f"{name}\x01{value}".encode(), body_crc)
    chosen.sort()
    return crc32("\x02".join([f"{name}\x01{value}" for name, value in chosen]).encode(), body_crc)


class Window:
    """Keys of the last `window_ms`, at most `keys_max`. Above that the oldest is forgotten."""

    def __init__(self, window_ms: int, keys_max: int, before: Before = int.__sub__) -> None:
        self._window_ms = window_ms
        self._before = before
        self._keys_max = keys_max
        self._ring = bytearray()
        self._slots = memoryview(bytearray(4)).cast("I")
        self._mask = 0
        self.first = (
            0  # number of the oldest entry; numbers only grow, and an entry is stored at number % keys_max
        )
        self.end = 0
        self.forgotten_early = 0

    def __len__(self) -> int:
        """Return the number of remembered keys."""
        return self.end - self.first

    def find(self, digest: bytes, now_ms: int) -> Remembered | None:
        """Return the entry of a key, None if it is older than the window."""
        slot = self._slot_of(digest)
        if slot < 0:
            return None
        found = self._read(self._slots[slot] - 1)
        return found if found.store_ms > self._before(now_ms, self._window_ms) else None

    def may_hold(self, digest: bytes) -> bool:
        """Whether a key is remembered, whatever its age."""
        return self._slots[self._place_of(digest)] != _EMPTY

    def judge(self, digest: bytes, crc: int, now_ms: int) -> tuple[Verdict, Remembered | None]:
        """Judge a send: new, a repeat of a remembered one, or the same key with other content."""
        found = self.find(digest, now_ms)
        if found is None:
            return Verdict.NEW, None
        return (Verdict.REPEAT if found.content_crc == crc else Verdict.CONFLICT), found

    def remember(self, entry: Remembered) -> None:
        """Add a stored message. Entries come in order of store time. Replaying one has no effect."""
        self._forget_before(self._before(entry.store_ms, self._window_ms))
        if not self._ring:
            self._allocate()
        slot = self._place_of(entry.digest)
        if value := self._slots[slot]:
            if self._read(value - 1).position >= entry.position:
                return
            self._free(slot)  # its ring place stays as a ghost until its time is over
            slot = -1
        if self.end - self.first >= self._keys_max:
            self.forgotten_early += 1
            self._drop_first()
            slot = -1
        at = self.end % self._keys_max
        ENTRY.pack_into(self._ring, at * ENTRY_BYTES, *entry)
        if slot < 0:  # an entry moved
            slot = self._place_of(entry.digest)
        self._slots[slot] = at + 1
        self.end += 1

    def forget_from(self, position: int) -> None:
        """Remove entries at or above a log position: the tail was cut."""
        while self.end > self.first and self._read((self.end - 1) % self._keys_max).position >= position:
            self._unlink((self.end - 1) % self._keys_max)
            self.end -= 1

    def packed(self, first: int) -> bytes:
        """Return the entries from number `first` on in their saved form, ENTRY_BYTES each."""
        start, end = max(first, self.first), self.end
        if start >= end:
            return b""
        low, high = start % self._keys_max, (end - 1) % self._keys_max + 1
        if low < high:
            return bytes(self._ring[low * ENTRY_BYTES : high * ENTRY_BYTES])
        return bytes(self._ring[low * ENTRY_BYTES :]) + bytes(self._ring[: high * ENTRY_BYTES])

    def _forget_before(self, oldest_ms: int) -> None:
        while self.end > self.first:
            at = self.first % self._keys_max * ENTRY_BYTES + _STORE_MS_AT
            if _STORE_MS.unpack_from(self._ring, at)[0] > oldest_ms:
                return
            self._drop_first()

    def _drop_first(self) -> None:
        self._unlink(self.first % self._keys_max)
        self.first += 1

    def _unlink(self, at: int) -> None:
        """Free the slot of a ring place, unless a later entry took over the key."""
        slot = self._slot_of(self._digest(at))
        if slot >= 0 and self._slots[slot] == at + 1:
            self._free(slot)

    def _read(self, at: int) -> Remembered:
        return Remembered(*ENTRY.unpack_from(self._ring, at * ENTRY_BYTES))

    def _digest(self, at: int) -> bytes:
        return bytes(self._ring[at * ENTRY_BYTES : at * ENTRY_BYTES + _DIGEST_BYTES])

    def _allocate(self) -> None:
        """Allocate the tables. There are twice as many slots as keys, a power of two, so chains stay short."""
        slot_count = 1 << (self._keys_max * _SLOTS_PER_KEY - 1).bit_length()
        self._ring = bytearray(self._keys_max * ENTRY_BYTES)
        self._slots = memoryview(bytearray(slot_count * 4)).cast("I")
        self._mask = slot_count - 1

    def _home(self, digest: bytes) -> int:
        return int.from_bytes(digest[:8], "big") & self._mask

    def _slot_of(self, digest: bytes) -> int:
        """Return the slot that holds a digest, -1 if none does."""
        slot = self._place_of(digest)
        return slot if self._slots[slot] else -1

    def _place_of(self, digest: bytes) -> int:
        """Return the slot that holds a digest, or the empty slot it would get."""
        slots, ring, mask = self._slots, self._ring, self._mask
        slot = int.from_bytes(digest[:8], "big") & mask
        while value := slots[slot]:
            at = (value - 1) * ENTRY_BYTES
            if ring.startswith(digest, at):
                break
            slot = (slot + 1) & mask
        return slot

    def _free(self, slot: int) -> None:
        """Empty a slot and move later slots of its chain back, so that no search ends early (linear probing)."""
        hole = slot
        while True:
            slot = (slot + 1) & self._mask
            value = self._slots[slot]
            if value == _EMPTY:
                break
            home = self._home(self._digest(value - 1))
            if (slot - home) & self._mask >= (slot - hole) & self._mask:
                self._slots[hole] = value
                hole = slot
        self._slots[hole] = _EMPTY
