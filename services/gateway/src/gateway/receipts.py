"""Receipt handles: opaque to clients, cheap to make and to check. Pure.

    version, flags (1: of the group's retry topic), queue id, offset, lease | name of the broker | CRC32 of all that, group and topic

as URL-safe base64 without padding. The check finds typing errors and handles of other groups and topics; it keeps nobody out who
means harm: whoever may receive may acknowledge.
"""

from binascii import Error, a2b_base64, b2a_base64
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from gantry_wire.lease_headers import LeasedRun

HANDLE_CHARS_MAX = 512
VERSION = 1
RETRY_FLAG = 1

_HEAD = Struct(">BBiqq")
_CHECK = Struct(">I")
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")
_PADDING = (b"", b"", b"==", b"=")


class Receipt(NamedTuple):
    """What a handle says: a message on lease at a broker."""

    broker: str
    is_retry: int
    queue_id: int
    offset: int
    lease: int


class Receipts:
    """Makes and reads the handles of one group in one topic."""

    __slots__ = ("_seed",)

    def __init__(self, topic: str, group: str) -> None:
        self._seed = crc32(f"{topic}\0{group}".encode())

    def make(self, receipt: Receipt) -> str:
        """Return the handle of a message."""
        broker, is_retry, queue_id, offset, lease = receipt
        body = _HEAD.pack(VERSION, is_retry, queue_id, offset, lease) + broker.encode()
        packed = body + _CHECK.pack(crc32(body, self._seed))
        return b2a_base64(packed, newline=False).translate(_TO_URL, b"=").decode()

    def read(self, handle: str) -> Receipt | None:
        """Return what a handle says; None for one that is malformed, or of another group or topic."""
        if len(handle) > HANDLE_CHARS_MAX or not handle.isascii() or len(handle) % 4 == 1:
            return None
        text = handle.encode()
        if b"+" in text or b"/" in text or b"=" in text:
            return None
        try:
            packed = a2b_base64(text.translate(_FROM_URL) + _PADDING[len(text) % 4], strict_mode=True)
        except Error:
            return None
        body = packed[: -_CHECK.size]
        if len(body) < _HEAD.size or _CHECK.unpack(packed[-_CHECK.size :])[0] != crc32(body, self._seed):
            return None
        version, flags, queue_id, offset, lease = _HEAD.unpack_from(body)
        if version != VERSION or flags & ~RETRY_FLAG:
            return None
        return Receipt(body[_HEAD.size :].decode(errors="replace"), flags, queue_id, offset, lease)


def leases_of(runs: Sequence[LeasedRun]) -> Iterator[tuple[int, int]]:
    """Yield lease and attempt of each record of a reply."""
    for records, lease, attempt in runs:
        for _ in range(records):
            yield lease, attempt
