"""What the reading side and the group commit need from outside. Protocols only: no code, no drivers."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol

from gantry_wire.bodies.cluster import TopicConfig
from gantry_wire.errors import RefusedRequest, WireError
from gantry_wire.frames.command import Command

InThread = Callable[..., Awaitable[Any]]
"""Runs a function in a thread."""


class LogReader(Protocol):
    """The log as readers see it: bytes by position, never above the visible end.

    Both reads raise PositionRemoved, PositionNotVisible or DamagedRecord. `read` may be called from any
    thread.
    """

    @property
    def end(self) -> int:
        """Position of the next record."""
        ...

    @property
    def visible_end(self) -> int:
        """End of readable bytes."""
        ...

    @property
    def min_position(self) -> int:
        """Start of the oldest segment."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Return exactly `size` bytes. May wait for the disk."""
        ...

    def read_nowait(self, position: int, size: int) -> bytes | None:
        """As `read`, but None when some of the bytes are not in memory."""
        ...

    def read_record(self, position: int) -> bytes:
        """Return the whole record at a position. May wait for the disk. Raises DamagedRecord where no record begins."""
        ...

    def read_unchecked(self, position: int, size: int) -> bytes:
        """Return raw bytes without checks. May wait for the disk."""
        ...


class ClaimingQueue(Protocol):
    """What a queue's records have in common, and which of its units may be damaged."""

    @property
    def topic(self) -> str:
        """Name of its topic."""
        ...

    @property
    def queue_id(self) -> int:
        """Id of the queue within its topic."""
        ...

    @property
    def magic(self) -> int:
        """Magic of its records."""
        ...

    @property
    def behind_body(self) -> bytes:
        """Bytes between the body and the length of the properties: the topic with its length."""
        ...

    @property
    def old_end(self) -> int:
        """Units below this offset were at rest in files before this run, and may be damaged."""
        ...


class QueueReader(ClaimingQueue, Protocol):
    """One queue: maps an offset to its unit (position, size, tags code)."""

    @property
    def min_offset(self) -> int:
        """Lowest offset that exists."""
        ...

    @property
    def max_offset(self) -> int:
        """One above the newest readable offset."""
        ...

    def read(self, offset: int, count: int) -> bytes:
        """Return up to `count` units of 20 bytes, fewer at the end or at a gap."""
        ...


class QueueTable(Protocol):
    """All queues of this store."""

    def find(self, topic: str, queue_id: int) -> QueueReader | None:
        """Return the queue, None when it never held a message."""
        ...

    def of_topic(self, topic: str) -> Iterable[QueueReader]:
        """Return the queues of a topic that ever held a message."""
        ...


class TopicTable(Protocol):
    """All topics of this store."""

    def find(self, name: str) -> TopicConfig | None:
        """Return the topic's configuration, None if it does not exist."""
        ...

    def names(self) -> Iterable[str]:
        """Return the names of all topics."""
        ...

    def ensure(self, name: str, queues: int, perm: int) -> TopicConfig:
        """Return the topic. Creates, saves and registers it if missing."""
        ...

    def system_names(self) -> Iterable[str]:
        """Return the system topics that clients may see."""
        ...

    def is_internal(self, name: str) -> bool:
        """Whether the topic is internal and must not be listed."""
        ...


class Saving(Protocol):
    """Records the changes of a table."""

    def when_saved(self, answer: Callable[[RefusedRequest | None], None]) -> None:
        """Call `answer` once all changes so far are durable, or with the reason why they may not be."""
        ...


class KeyIndex(Protocol):
    """Positions by hash of topic and key."""

    @property
    def end_position(self) -> int:
        """Records up to here are indexed. -1 if none is."""
        ...

    def lookup(self, key_hash: int, begin_ms: int, end_ms: int, count_max: int) -> Sequence[int]:
        """Return positions of records with that hash and store time, newest first. Other keys may share the hash."""
        ...


class Document(Protocol):
    """A JSON file that is replaced as a whole and keeps its predecessor."""

    def load(self) -> object | None:
        """Return the content, that of the predecessor when it is damaged, None when there is neither."""
        ...

    def store(self, content: object) -> None:
        """Replace the content. Durable on return. Raises OSError."""
        ...


class Admitted(Protocol):
    """What access control admitted a request for."""

    def refusal(self) -> WireError | None:
        """Return why the request must not be answered any more."""
        ...


ADMITTED = "access admitted"
"""Attribute of a peer: an `Admitted` of its last pull, where access control is on and the pull is none of Gantry's own services."""
ACTING_USER = "access user"
"""Attribute of a peer: the user of its last request, by signature or certificate. The door of access control sets it; it is absent where that is off."""


class Peer(Protocol):
    """The remote end of a connection, as handlers see it."""

    @property
    def id(self) -> int:
        """Number of the connection, never reused."""
        ...

    @property
    def remote(self) -> tuple[str, int]:
        """Address and port of the remote end."""
        ...

    @property
    def attributes(self) -> dict[str, Any]:
        """What the store keeps with this connection."""
        ...

    @property
    def is_closing(self) -> bool:
        """Whether nothing more can reach the remote end."""
        ...

    def send(self, data: bytes) -> None:
        """Queue bytes for the end of this turn of the loop."""
        ...

    def send_parts(self, parts: list[bytes]) -> None:
        """Queue one frame made of several buffers."""
        ...

    def request(
        self, code: int, header: dict[str, str] | None, body: bytes, timeout: float
    ) -> Awaitable[Command]:
        """Send a request and wait for its answer. Raises LinkError when none comes."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


Handler = Callable[[Peer, Command], bytes | None]
"""Answers a request.

Returns the whole reply frame, or None when there is none or it comes later. Raises WireError to refuse.
"""

Commands = dict[int, tuple[str, Handler]]
"""Request code → (request class, handler)."""


class InternalAppend(Protocol):
    """Stores a message of the store's own; creates its topic if missing. Nobody waits for it."""

    def __call__(self, topic: str, queue_id: int, body: bytes, *, tags: str = "", keys: str = "") -> None:
        """Append one message."""
        ...


class CommitMetrics(Protocol):
    """Metrics of the group commit."""

    def put_took_us(self, us: int, count: int) -> None:
        """Record that `count` entries were answered `us` after the first of them arrived."""
        ...

    def on_flush(self, us: int, batch_count: int) -> None:
        """Record that one flush answered `batch_count` entries."""
        ...
