"""Fast path of halves whose properties equal earlier ones except for the unique key. Parses and edits nothing.

A shape holds what the slow path found out after all its checks. Bounded. Halves with varying properties
never become a shape.
"""

from broker_store.commit.message import Message, Mode
from broker_store.commit.targets import Target
from broker_store.transactions.half_messages.recent_halves import HalfKind
from gantry_wire.bounded_cache import BoundedCache
from gantry_wire.headers.messages import SendHeader
from gantry_wire.messages.properties import UNIQ_KEY

SHAPES_MAX = 4096
_MARK = f"{UNIQ_KEY}\x01"
_END = "\x02"
_PIECES = 3

_Key = tuple[str, int, str, str]
"""Topic, queue id, the properties before the unique key's, and those after its value."""


class HalfShape:
    """What such halves share."""

    __slots__ = ("head", "keys", "kind", "middle", "mode", "tags_code", "tail", "target")

    def __init__(
        self, target: Target, kind: HalfKind, mode: Mode, message: Message, pieces: list[bytes]
    ) -> None:
        """`pieces` are the stored properties around the unique key, which occurs twice."""
        self.target = target
        self.kind = kind
        self.mode = mode
        self.tags_code = message.tags_code
        self.keys = message.keys
        self.head, self.middle, self.tail = pieces


class KnownHalves:
    """Shapes by their constant parts."""

    def __init__(self) -> None:
        self._shapes: BoundedCache[_Key, HalfShape] = BoundedCache(SHAPES_MAX)
        self._seen: BoundedCache[_Key, bool] = BoundedCache(SHAPES_MAX)
        """Keys of halves that came once. A second one is worth a shape."""

    def find(self, header: SendHeader, target: Target, text: str) -> tuple[HalfShape, str] | None:
        """Return the shape of unparsed properties, and the unique key. None where they must be parsed."""
        before, _, rest = text.partition(_MARK)
        unique_key, _, behind = rest.partition(_END)
        shape = self._shapes.get((header.topic, header.queue_id, before, behind))
        if shape is None or shape.target is not target:
            return None
        return (shape, unique_key) if unique_key.isalnum() and unique_key.isascii() else None

    def note(
        self, header: SendHeader, target: Target, kind: HalfKind, mode: Mode, message: Message, raw: bytes
    ) -> None:
        """Remember an ordinary half that was parsed. `raw` is its stored properties."""
        if header.topic != target.topic or header.queue_id != message.queue.queue_id:
            return
        before, _, rest = (header.properties or "").partition(_MARK)
        unique_key, _, behind = rest.partition(_END)
        if unique_key != message.unique_key or (before and not before.endswith(_END)):
            return
        pieces = raw.split(unique_key.encode())
        if len(pieces) != _PIECES:
            return  # the key occurs elsewhere too
        key = (header.topic, header.queue_id, before, behind)
        if self._seen.get(key):
            self._shapes.keep(key, HalfShape(target, kind, mode, message, pieces))
        else:
            self._seen.keep(key, True)
