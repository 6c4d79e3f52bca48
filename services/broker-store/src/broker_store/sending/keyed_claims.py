# ruff: noqa: D102 - the Protocols say what these methods promise
"""An idempotency key whose first message is on its way, and the entry of the group commit that waits for it: a repeat."""

from broker_store.commit.message import (
    FSYNC_FIELD,
    WRITTEN_FIELD,
    Arrivals,
    IndexEntry,
    Mode,
    Placement,
    ReplyTo,
    refusal_frame,
)
from broker_store.commit.special_message import json_fields
from broker_store.sending.idempotency import Remembered
from gantry_wire.codes import ResponseCode
from gantry_wire.encode import encode_response, encode_send_reply
from gantry_wire.errors import RefusedRequest
from gantry_wire.ids import offset_message_id

DUPLICATE_FIELD = b',"duplicate":"true"'

Told = tuple[int, dict[str, str]]
Place = tuple[int, int, Told]
"""Position and offset of a message, and what its sender is told."""


class Claim:
    """A key whose first message is on its way; `stored` is set when it became visible, None for ever if it failed.

    `told` is what its sender is told with it: the queue, and further fields.
    """

    __slots__ = ("crc", "digest", "stored", "told", "unique_key")

    def __init__(self, digest: bytes, crc: int, unique_key: str) -> None:
        self.digest = digest
        self.crc = crc
        self.unique_key = unique_key
        self.stored: Remembered | None = None
        self.told: Told = (-1, {})


class Repeat:
    """A message that was stored before, or is on its way: waits with the batch of its turn, stores nothing."""

    count = 1

    def __init__(self, mode: Mode, peer: ReplyTo | None, opaque: int, claim: Claim) -> None:
        self.mode = Mode.SYNC if mode == Mode.EARLY else mode
        self._peer = peer
        self._opaque = opaque
        self._claim = claim

    def place(self, at: Placement) -> None:
        """Nothing to place."""

    def take_back(self) -> None:
        """Nothing to take back."""

    def appear(self, index: list[IndexEntry], arrivals: Arrivals | None) -> None:
        """Nothing becomes visible."""

    def answer(self, at: Placement, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        peer, self._peer = self._peer, None
        if peer is None:
            return
        stored = self._claim.stored
        if stored is None:
            words = "the first message of this idempotency key is not known to be stored: send again with the same key"
            peer.send(
                encode_response(
                    code or ResponseCode.SYSTEM_BUSY,
                    self._opaque,
                    {"gantryCode": "FIRST_UNKNOWN"},
                    remark=words,
                )
            )
            return
        queue_id, more = self._claim.told
        durability = FSYNC_FIELD if self.mode == Mode.SYNC else WRITTEN_FIELD
        extra = DUPLICATE_FIELD + durability + json_fields(more)
        message_id = offset_message_id(at.store_host, stored.position)
        peer.send(
            encode_send_reply(
                self._opaque, message_id, queue_id, stored.queue_offset, self._claim.unique_key, extra
            )
        )

    def refuse(self, refusal: RefusedRequest) -> None:
        peer, self._peer = self._peer, None
        if peer is not None:
            peer.send(refusal_frame(self._opaque, refusal))
