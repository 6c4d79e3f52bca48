"""What the reading side of the store and the group commit need from outside, in their own words. Protocols only: no code, no drivers."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol

from gantry_wire.bodies import TopicConfig
from gantry_wire.frame import Command


class LogReader(Protocol):
    """The log as readers see it: bytes by position, never above the visible end.

    Both reads raise PositionRemoved, PositionNotVisible or DamagedRecord; `read` may be called from any thread.
    """

    @property
    def end(self) -> int:
        """Where the next record will lie."""
        ...

    @property
    def visible_end(self) -> int:
        """Where readable bytes end."""
        ...

    @property
    def min_position(self) -> int:
        """Where the oldest segment still there starts."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Return exactly `size` bytes, waiting for the disk if it must."""
        ...

    def read_nowait(self, position: int, size: int) -> bytes | None:
        """As `read`, but None when the bytes are not all in memory."""
        ...

    def read_record(self, position: int) -> bytes:
        """Return the whole record at a position; may wait for the disk. DamagedRecord where none begins."""
        ...

    def read_unchecked(self, position: int, size: int) -> bytes:
        """Return bytes as they lie, whatever they are; may wait for the disk."""
        ...


class QueueReader(Protocol):
    """One queue: `offset`-th message to its unit (position, size, tags code)."""

    @property
    def min_offset(self) -> int:
        """Lowest offset still there."""
        ...

    @property
    def max_offset(self) -> int:
        """One past the newest readable offset."""
        ...

    def read(self, offset: int, count: int) -> bytes:
        """Return up to `count` units of 20 bytes, fewer at the end or at a gap."""
        ...


class NamedQueue(QueueReader, Protocol):
    """A queue that knows its number."""

    @property
    def queue_id(self) -> int:
        """Number of the queue within its topic."""
        ...


class QueueTable(Protocol):
    """All queues of this store."""

    def find(self, topic: str, queue_id: int) -> QueueReader | None:
        """Return the queue, or None when it never held a message."""
        ...

    def of_topic(self, topic: str) -> Iterable[NamedQueue]:
        """Return the queues of a topic that ever held a message."""
        ...


class TopicTable(Protocol):
    """All topics of this store."""

    def find(self, name: str) -> TopicConfig | None:
        """Return the topic's configuration, or None when it does not exist."""
        ...

    def names(self) -> Iterable[str]:
        """Return the names of all topics."""
        ...

    def ensure(self, name: str, queues: int, perm: int) -> TopicConfig:
        """Return the topic, made (saved and registered) when it does not exist."""
        ...

    def system_names(self) -> Iterable[str]:
        """Return the system topics a client may know of."""
        ...

    def is_internal(self, name: str) -> bool:
        """Whether the topic is one of ours that no list may show."""
        ...


class KeyIndex(Protocol):
    """Positions by hash of topic and key."""

    @property
    def end_position(self) -> int:
        """Records up to here are indexed, -1 if none is."""
        ...

    def lookup(self, key_hash: int, begin_ms: int, end_ms: int, count_max: int) -> Sequence[int]:
        """Return positions of records with that hash and store time, newest first; other keys may share the hash."""
        ...


class Document(Protocol):
    """One JSON file that is replaced as a whole and keeps its predecessor."""

    def load(self) -> object | None:
        """Return the content, the predecessor's when it is damaged, None when there is neither."""
        ...

    def store(self, content: object) -> None:
        """Replace the content; it is durable on return. Raises OSError."""
        ...


class Peer(Protocol):
    """The other end of a connection, as handlers see it."""

    @property
    def id(self) -> int:
        """Number of the connection, never used twice."""
        ...

    @property
    def remote(self) -> tuple[str, int]:
        """Address and port of the other end."""
        ...

    @property
    def attributes(self) -> dict[str, Any]:
        """What the store remembers with this connection."""
        ...

    @property
    def is_closing(self) -> bool:
        """Whether nothing more will reach the other end."""
        ...

    def send(self, data: bytes) -> None:
        """Queue bytes; they leave at the end of this turn of the loop."""
        ...

    def send_parts(self, parts: list[bytes]) -> None:
        """Queue one frame that lies in several buffers."""
        ...

    def request(
        self, code: int, header: dict[str, str] | None, body: bytes, timeout: float
    ) -> Awaitable[Command]:
        """Ask the other end something; raises LinkError, at once or while waiting, when no answer comes."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


Handler = Callable[[Peer, Command], bytes | None]
"""Answers a request: the whole reply frame, or None when there is none or it comes later. Raises WireError to refuse."""

Commands = dict[int, tuple[str, Handler]]
"""Request code → (request class, handler)."""


class InternalAppend(Protocol):
    """Stores a message of the store's own; makes its topic when missing. Nobody waits for it."""

    def __call__(self, topic: str, queue_id: int, body: bytes, *, tags: str = "", keys: str = "") -> None:
        """Append one message."""
        ...


class CommitMetrics(Protocol):
    """Where the group commit counts."""

    def put_took_us(self, us: int, count: int) -> None:
        """`count` entries were answered `us` after the first of them arrived."""
        ...

    def on_flush(self, us: int, batch_count: int) -> None:
        """One flush answered `batch_count` entries."""
        ...
