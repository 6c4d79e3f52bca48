"""A send batch in the group commit: its messages are stored together, visible together, and share one answer."""

from collections.abc import Sequence
from itertools import compress, repeat
from typing import NamedTuple

import msgspec

from broker_store.commit.message import (
    FSYNC_FIELD,
    WRITTEN_FIELD,
    Arrivals,
    IndexEntry,
    Mode,
    ReplyTo,
    key_entries,
    refusal_frame,
)
from broker_store.commit.queues import Queue
from broker_store.commit.record_writer import Columns, RecordWriter
from broker_store.commit.special_sends import SPECIAL, refuse_in_batch
from broker_store.commit.stamp import (
    KEY_AT,
    KEY_END,
    PLAIN_BYTES_MAX,
    PLAIN_HEAD,
    PLAIN_TAIL,
    Stamp,
    plain_unique_key,
)
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.encode import encode_response, encode_send_reply
from gantry_wire.limits import PROPERTIES_BYTES_MAX
from gantry_wire.messages.batch import BatchColumns, decode_columns
from gantry_wire.messages.ids import offset_message_ids
from gantry_wire.messages.properties import KEYS, TAGS, index_key_hashes, parse_properties, tags_code

_BETWEEN = PLAIN_TAIL + PLAIN_HEAD


class Items(NamedTuple):
    """The messages of a batch, ready to be stored: one column per field, in their order."""

    flags: Sequence[int]
    bodies: Sequence[bytes]
    properties: Sequence[bytes]
    tags_codes: Sequence[int]
    unique_keys: Sequence[str]
    keys: Sequence[str | None]
    """KEYS of each message. Empty when none has any."""

    def only(self, chosen: Sequence[bool]) -> "Items":
        """Return the chosen messages."""
        return Items(
            tuple(compress(self.flags, chosen)),
            tuple(compress(self.bodies, chosen)),
            tuple(compress(self.properties, chosen)),
            tuple(compress(self.tags_codes, chosen)),
            tuple(compress(self.unique_keys, chosen)),
            tuple(compress(self.keys, chosen)),
        )


_Item = tuple[int, bytes, bytes, int, str, str | None]


def read_items(body: bytes, sys_flag: int, stamp: Stamp) -> Items:
    """Return the messages of a batch body.

    Raises MalformedBatch, or RefusedRequest for the first that cannot be stored.
    """
    members = decode_columns(body)
    even = _read_even(members, stamp.suffix)
    return even if even is not None else _read_each(members, sys_flag, stamp)


def _read_each(members: BatchColumns, sys_flag: int, stamp: Stamp) -> Items:
    suffix = stamp.suffix
    room = PROPERTIES_BYTES_MAX - len(suffix)
    rows: list[_Item] = []
    for flag, body, raw in zip(*members, strict=True):
        unique_key = plain_unique_key(raw) if len(raw) <= room else ""
        if unique_key:
            rows.append((flag, body, raw + suffix, 0, unique_key, None))
        else:
            rows.append(_read(flag, body, raw, sys_flag, stamp))
    columns = Items(*zip(*rows, strict=True))
    return columns if any(columns.keys) else columns._replace(keys=())


def _read_even(members: BatchColumns, suffix: bytes) -> Items | None:
    """Read messages with plain properties of equal size, all at once. None when they differ."""
    raws = members.properties
    size, count = len(raws[0]), len(raws)
    room = min(PLAIN_BYTES_MAX, PROPERTIES_BYTES_MAX - len(suffix))
    if not 0 < size <= room or len(set(map(len, raws))) != 1:
        return None
    found = [raw[KEY_AT:KEY_END] for raw in raws]
    joined = b"".join(
        found
    )  # as bytes, because `isalnum` of a str looks up each character in the tables of Unicode
    if not joined.isalnum() or PLAIN_HEAD + _BETWEEN.join(found) + PLAIN_TAIL != b"".join(raws):
        return None
    text, key_size = joined.decode(), len(found[0])
    keys = [text[at : at + key_size] for at in range(0, len(text), key_size)]
    nothing = (0,) * count
    return Items(members.flags, members.bodies, [raw + suffix for raw in raws], nothing, keys, ())


def _read(flag: int, body: bytes, raw: bytes, sys_flag: int, stamp: Stamp) -> _Item:
    properties = parse_properties(raw)
    if not SPECIAL.isdisjoint(properties):
        refuse_in_batch(properties, sys_flag)
    raw, unique_key = stamp.finish_bytes(raw, properties)
    if len(raw) > PROPERTIES_BYTES_MAX:
        remark = f"the properties of a message have {len(raw)} bytes, the limit is {PROPERTIES_BYTES_MAX}"
        raise RefusedRequest(ResponseCode.MESSAGE_ILLEGAL, remark)
    tag = properties.get(TAGS)
    return flag, body, raw, tags_code(tag) if tag else 0, unique_key, properties.get(KEYS)


# ruff: noqa: D102 - the Protocols say what these methods promise


class ItemResult(msgspec.Struct, rename="camel"):
    """Result of one message of a batch, for senders that ask for it (`gantryPerItem`)."""

    queue_id: int
    queue_offset: int
    position: int
    store_timestamp: int
    uniq_key: str
    duplicate: bool = False
    code: int = 0
    gantry_code: str | None = None
    """Machine-readable reason of a refusal."""
    remark: str | None = None


class SendBatch:
    """Messages of one request for one queue: all are stored, or none."""

    count = 1

    __slots__ = (
        "born_host",
        "born_ms",
        "first_offset",
        "items",
        "mode",
        "opaque",
        "peer",
        "per_item",
        "positions",
        "queue",
        "reconsume_times",
        "sizes",
        "store_ms",
        "sys_flag",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - what the items share
        self,
        queue: Queue,
        items: Items,
        mode: Mode,
        peer: ReplyTo | None,
        opaque: int,
        sys_flag: int,
        born_ms: int,
        born_host: bytes,
        reconsume_times: int,
        per_item: bool,
    ) -> None:
        self.queue = queue
        self.items = items
        self.mode = mode
        self.peer = peer
        self.opaque = opaque
        self.sys_flag = sys_flag
        self.born_ms = born_ms
        self.born_host = born_host
        self.reconsume_times = reconsume_times
        self.per_item = per_item
        self.positions: Sequence[int] = ()
        self.sizes: Sequence[int] = ()
        self.first_offset = -1
        self.store_ms = 0

    def place(self, at: RecordWriter) -> None:
        items = self.items
        columns = Columns(
            self.queue, self.sys_flag, self.born_ms, self.born_host, self.reconsume_times, items.flags, items.bodies,
            items.properties,
        )  # fmt: skip
        self.first_offset, self.positions, self.sizes = at.place_columns(columns)
        self.store_ms = at.store_ms

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        queue, topic, store_ms = self.queue, self.queue.topic, self.store_ms
        items, positions = self.items, self.positions
        queue.units.append_all(self.first_offset, positions, self.sizes, items.tags_codes)
        hashes = index_key_hashes(topic, items.unique_keys)
        entries = zip(hashes, positions, repeat(store_ms), strict=False)
        if items.keys:
            for keys, entry in zip(items.keys, entries, strict=True):
                index.append(entry)
                if keys:
                    index += key_entries(topic, keys, entry[1], store_ms)
        else:
            index += entries
        if arrivals is not None:
            arrivals.setdefault(queue, []).extend(items.tags_codes)

    def answer(self, at: RecordWriter, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        peer, self.peer = self.peer, None
        if peer is None:
            return
        positions, queue_id, first_offset = self.place_of_reply()
        ids = offset_message_ids(at.store_host, positions)
        is_durable = self.mode == Mode.SYNC and not code
        if not code and not self.per_item:
            extra = FSYNC_FIELD if is_durable else WRITTEN_FIELD
            peer.send(encode_send_reply(self.opaque, ids, queue_id, first_offset, "", extra))
            return
        fields = {
            "msgId": ids,
            "queueId": str(queue_id),
            "queueOffset": str(first_offset),
            "durability": "fsync" if is_durable else "written",
        }
        body = msgspec.json.encode(self.results()) if self.per_item else b""
        peer.send(encode_response(code, self.opaque, fields, body, remark=code.name if code else None))

    def place_of_reply(self) -> tuple[Sequence[int], int, int]:
        """Return the positions of all messages, and queue id and offset of the first."""
        return self.positions, self.queue.queue_id, self.first_offset

    def results(self) -> list[ItemResult]:
        """Return the result of each message, in the order of the request."""
        queue_id = self.queue.queue_id
        return [
            ItemResult(queue_id, self.first_offset + number, position, self.store_ms, unique_key)
            for number, (unique_key, position) in enumerate(
                zip(self.items.unique_keys, self.positions, strict=True)
            )
        ]

    def refuse(self, refusal: RefusedRequest) -> None:
        peer, self.peer = self.peer, None
        if peer is not None:
            peer.send(refusal_frame(self.opaque, refusal))
