"""Sends with an idempotency key: a repeat gets the first message's position, other content is a conflict.

A key is claimed when its message enters the group commit, and remembered in the window when the message
becomes visible. A repeat of a claimed key joins the group commit too, so its answer follows the flush that
the first message waits for.
"""

from collections.abc import Callable, Sequence
from typing import cast
from zlib import crc32

from broker_store.commit.appends import Appends
from broker_store.commit.message import (
    FSYNC_FIELD,
    WRITTEN_FIELD,
    Arrivals,
    IndexEntry,
    Message,
    Mode,
    ReplyTo,
    refusal_frame,
    reply_fields,
)
from broker_store.commit.record_writer import RecordWriter
from broker_store.commit.special_message import json_fields
from broker_store.log.errors import DamagedRecord, LogError
from broker_store.sending.idempotency import Remembered, Verdict, Window, content_crc, key_digest
from broker_store.sending.send_batch import ItemResult, SendBatch
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest, WireError
from gantry_wire.frames.encode import encode_response, encode_send_reply
from gantry_wire.messages.ids import offset_message_id
from gantry_wire.messages.properties import GANTRY_KEY, UNIQ_KEY, parse_properties
from gantry_wire.records.message_record import CRC_MASK, Record, decode_record

# ruff: noqa: D102 - the Protocols say what these methods promise


DUPLICATE_FIELD = b',"duplicate":"true"'
FIRST_UNKNOWN = (
    "the first message of this idempotency key is not known to be stored: send again with the same key"
)

ReplyPlace = tuple[int, dict[str, str]]
Place = tuple[int, int, ReplyPlace]
"""Position and offset of a message, and the reply place for its sender."""


class Claim:
    """A key whose first message is in flight. `stored` is set when it becomes visible, and stays None if it fails.

    `reply_place` is the sender's queue id and further reply fields.
    """

    __slots__ = ("crc", "digest", "reply_place", "stored", "unique_key")

    def __init__(self, digest: bytes, crc: int, unique_key: str) -> None:
        self.digest = digest
        self.crc = crc
        self.unique_key = unique_key
        self.stored: Remembered | None = None
        self.reply_place: ReplyPlace = (-1, {})


class Repeat:
    """A repeat of a stored or in-flight message. Waits with the batch of its turn and stores nothing."""

    count = 1

    def __init__(self, mode: Mode, peer: ReplyTo | None, opaque: int, claim: Claim) -> None:
        self.mode = Mode.SYNC if mode == Mode.EARLY else mode
        self._peer = peer
        self._opaque = opaque
        self._claim = claim

    def place(self, at: RecordWriter) -> None:
        """Do nothing: nothing is placed."""

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        """Do nothing: nothing becomes visible."""

    def answer(self, at: RecordWriter, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        peer, self._peer = self._peer, None
        if peer is None:
            return
        stored = self._claim.stored
        if stored is None:
            peer.send(refusal_frame(self._opaque, _first_unknown()))
            return
        queue_id, more = self._claim.reply_place
        message_id = offset_message_id(at.store_host, stored.position)
        if code:
            fields = reply_fields(message_id, queue_id, stored.queue_offset, self._claim.unique_key)
            fields |= {**more, "duplicate": "true"}
            peer.send(encode_response(code, self._opaque, fields, remark=code.name))
            return
        durability = FSYNC_FIELD if self.mode == Mode.SYNC else WRITTEN_FIELD
        extra = DUPLICATE_FIELD + durability + json_fields(more)
        peer.send(
            encode_send_reply(
                self._opaque, message_id, queue_id, stored.queue_offset, self._claim.unique_key, extra
            )
        )

    def refuse(self, refusal: RefusedRequest) -> None:
        peer, self._peer = self._peer, None
        if peer is not None:
            peer.send(refusal_frame(self._opaque, refusal))


_new = cast("Callable[[type[Remembered], tuple[bytes, int, int, int, int, int]], Remembered]", tuple.__new__)
"""Makes the tuple in 0.15 us instead of 0.4. There is one per message."""


class KeyedSends:
    """Judges keyed sends and keeps claims and window consistent."""

    def __init__(
        self,
        window: Window,
        appends: Appends,
        is_readable: Callable[[str, Remembered], bool],
        read_record: Callable[[int], bytes],
        now_ms: Callable[[], int],
        reply_place_of: Callable[[Record], ReplyPlace],
        may_come: Callable[[int], bool] | None,
    ) -> None:
        """`may_come` asks for the damaged record at a position, and says whether another replica may have it. None: there is none."""
        self.window = window
        self._appends = appends
        self._is_readable = is_readable
        self._read_record = read_record
        self._now_ms = now_ms
        self._reply_place_of = reply_place_of
        self._may_come = may_come
        self._claims: dict[bytes, Claim] = {}

    def submit(self, message: Message, topic: str, properties: dict[str, str]) -> None:
        """Store a keyed message sent to `topic`, whatever queue it waits in, or answer its repeat.

        Raises RefusedRequest for a conflict.
        """
        crc = content_crc(crc32(message.body) & CRC_MASK, properties)
        verdict, claim = self.judge(topic, properties[GANTRY_KEY], crc, message.unique_key)
        if verdict is Verdict.CONFLICT:
            raise conflict(properties[GANTRY_KEY])
        if verdict is Verdict.REPEAT:
            self._appends.submit(Repeat(message.mode, message.peer, message.opaque, claim))
            return
        try:
            self._appends.submit(_KeyedMessage(message, claim, self), len(message.body))
        except RefusedRequest:
            self.failed(claim)
            raise

    def submit_batch(self, batch: SendBatch) -> None:
        """Store the new messages of a batch. The others get the position of their first copy, or their conflict."""
        verdicts: list[tuple[Verdict, Claim | None]] = []
        items = batch.items
        for raw, body, unique_key in zip(items.properties, items.bodies, items.unique_keys, strict=True):
            properties = parse_properties(raw)
            key = properties.get(GANTRY_KEY)
            if key is None:
                verdicts.append((Verdict.NEW, None))
                continue
            crc = content_crc(crc32(body) & CRC_MASK, properties)
            try:
                verdict, claim = self.judge(batch.queue.topic, key, crc, unique_key)
            except RefusedRequest:
                self._release(verdicts)
                raise
            if verdict is Verdict.CONFLICT and not batch.per_item:
                self._release(verdicts)
                raise conflict(key)
            verdicts.append((verdict, claim))
        try:
            self._appends.submit(_KeyedBatch(batch, verdicts, self), sum(map(len, items.bodies)))
        except RefusedRequest:
            self._release(verdicts)
            raise

    def judge(self, topic: str, key: str, crc: int, unique_key: str) -> tuple[Verdict, Claim]:
        """Judge a key and claim it if new. It is new too if its first message is gone with its topic or by age.

        Raises RefusedRequest while its first message is damaged, and another replica may have it.
        """
        digest = key_digest(topic, key)
        claim = self._claims.get(digest)
        if claim is not None:
            return (Verdict.REPEAT if claim.crc == crc else Verdict.CONFLICT), claim
        claim = Claim(digest, crc, unique_key)
        if not self.window.may_hold(digest):
            self._claims[digest] = claim
            return Verdict.NEW, claim
        verdict, found = self.window.judge(digest, crc, self._now_ms())
        if found is not None and not self._recall(claim, topic, found):
            verdict = Verdict.NEW
        if verdict is Verdict.NEW:
            self._claims[digest] = claim
        return verdict, claim

    def stored(self, claim: Claim, entry: Remembered, reply_place: ReplyPlace) -> None:
        """Remember the first message of a key, which became visible."""
        claim.stored = entry
        claim.reply_place = reply_place
        self._claims.pop(claim.digest, None)
        self.window.remember(entry)

    def stored_all(self, claims: Sequence[Claim], places: Sequence[Place], store_ms: int) -> None:
        """As `stored`, for messages that became visible together."""
        forget, remember = self._claims.pop, self.window.remember
        for claim, (position, offset, reply_place) in zip(claims, places, strict=True):
            entry = _new(Remembered, (claim.digest, claim.crc, store_ms, position, offset, reply_place[0]))
            claim.stored, claim.reply_place = entry, reply_place
            forget(claim.digest, None)
            remember(entry)

    def failed(self, claim: Claim) -> None:
        """Release a key whose first message was not stored: the next one is new again."""
        if self._claims.get(claim.digest) is claim:
            del self._claims[claim.digest]

    def _release(self, verdicts: list[tuple[Verdict, Claim | None]]) -> None:
        for verdict, claim in verdicts:
            if verdict is Verdict.NEW and claim is not None:
                self.failed(claim)

    def _recall(self, claim: Claim, topic: str, found: Remembered) -> bool:
        """Read the first message back; False when it is gone. It is recent, so this rarely waits for the disk.

        A delayed message lies in a system queue. If the record is damaged in every replica, its position is still the answer.
        """
        reply_place: ReplyPlace = (found.queue_id, {})
        unique_key = ""
        try:
            record = decode_record(self._read_record(found.position))
            topic, reply_place = record.topic.decode(), self._reply_place_of(record)
            unique_key = parse_properties(record.properties).get(UNIQ_KEY, "")
        except DamagedRecord:
            if self._may_come is not None and self._may_come(found.position):
                raise _first_unknown() from None
        except (LogError, WireError, OSError):
            pass
        if not self._is_readable(topic, found):
            return False
        claim.stored, claim.reply_place, claim.unique_key = found, reply_place, unique_key
        return True


class _KeyedMessage:
    """The first message of a key. Delegates to the message and keeps claim and window consistent."""

    __slots__ = ("_claim", "_keyed", "_message", "answer", "mode", "place")

    count = 1

    def __init__(self, message: Message, claim: Claim, keyed: KeyedSends) -> None:
        self._message = message
        self._claim = claim
        self._keyed = keyed
        self.mode = message.mode
        self.place = message.place
        self.answer = message.answer

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        message, claim = self._message, self._claim
        message.make_visible(index, arrivals)
        place = (message.position, message.offset, message.queue.queue_id)
        entry = Remembered(claim.digest, claim.crc, message.store_ms, *place)
        self._keyed.stored(claim, entry, message.reply_place())

    def refuse(self, refusal: RefusedRequest) -> None:
        self._keyed.failed(self._claim)
        self._message.refuse(refusal)


class _KeyedBatch(SendBatch):
    """A batch that stores only its new messages."""

    __slots__ = ("_all_keys", "_is_empty", "_keyed", "_verdicts")

    def __init__(
        self, batch: SendBatch, verdicts: list[tuple[Verdict, Claim | None]], keyed: KeyedSends
    ) -> None:
        for name in SendBatch.__slots__:
            setattr(self, name, getattr(batch, name))
        self._all_keys = batch.items.unique_keys
        self._verdicts = verdicts
        self._keyed = keyed
        is_new = [verdict is Verdict.NEW for verdict, _ in verdicts]
        self._is_empty = not any(is_new)
        self.items = batch.items.only(is_new)

    def place(self, at: RecordWriter) -> None:
        if not self._is_empty:
            super().place(at)

    def make_visible(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        if not self._is_empty:
            super().make_visible(index, arrivals)
        number = 0
        for verdict, claim in self._verdicts:
            if verdict is not Verdict.NEW:
                continue
            if claim is not None:
                place = (self.positions[number], self.first_offset + number, self.queue.queue_id)
                entry = Remembered(claim.digest, claim.crc, self.store_ms, *place)
                self._keyed.stored(claim, entry, (self.queue.queue_id, {}))
            number += 1

    def answer(self, at: RecordWriter, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        if not self.per_item and any(result.code for result in self.results()):
            super().refuse(_first_unknown())  # such an answer has no place for the result of a message
            return
        super().answer(at, code)

    def place_of_reply(self) -> tuple[Sequence[int], int, int]:
        results = self.results()
        return [result.position for result in results], results[0].queue_id, results[0].queue_offset

    def results(self) -> list[ItemResult]:
        new = iter(super().results())
        return [
            next(new) if verdict is Verdict.NEW else self._result_of(unique_key, verdict, claim)
            for unique_key, (verdict, claim) in zip(self._all_keys, self._verdicts, strict=True)
        ]

    def _result_of(self, unique_key: str, verdict: Verdict, claim: Claim | None) -> ItemResult:
        assert claim is not None
        stored = claim.stored
        if verdict is Verdict.CONFLICT:
            remark = "this idempotency key was used for another message"
            return ItemResult(
                -1,
                -1,
                -1,
                0,
                unique_key,
                code=ResponseCode.MESSAGE_ILLEGAL,
                gantry_code="IDEMPOTENCY_CONFLICT",
                remark=remark,
            )
        if stored is None:
            return ItemResult(
                -1,
                -1,
                -1,
                0,
                unique_key,
                code=ResponseCode.SYSTEM_BUSY,
                gantry_code="FIRST_UNKNOWN",
                remark=FIRST_UNKNOWN,
            )
        return ItemResult(
            claim.reply_place[0],
            stored.queue_offset,
            stored.position,
            stored.store_ms,
            claim.unique_key,
            duplicate=True,
        )

    def refuse(self, refusal: RefusedRequest) -> None:
        for verdict, claim in self._verdicts:
            if verdict is Verdict.NEW and claim is not None:
                self._keyed.failed(claim)
        super().refuse(refusal)


def _first_unknown() -> RefusedRequest:
    """Return the refusal of a repeat while the flush of its first message is late or has failed."""
    return RefusedRequest(ResponseCode.SYSTEM_BUSY, FIRST_UNKNOWN, {"gantryCode": "FIRST_UNKNOWN"})


def conflict(key: str) -> RefusedRequest:
    """Return the refusal of other content under a remembered key."""
    return RefusedRequest(
        ResponseCode.MESSAGE_ILLEGAL,
        f"idempotency key {key!r} was used for another message of this topic; use a new key for new content",
        {"gantryCode": "IDEMPOTENCY_CONFLICT"},
    )
