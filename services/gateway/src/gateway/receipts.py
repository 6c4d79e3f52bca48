"""Receipt handles: opaque to clients, cheap to make and to check. Pure.

    CRC32 of all that follows, group and topic | version, flags (1: of the group's retry topic), queue id, offset, lease | broker's name

as URL-safe base64 without padding. The check finds typing errors and handles of other groups and topics; it keeps nobody out who
means harm: whoever may receive may acknowledge.
"""

from binascii import Error, a2b_base64, b2a_base64
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple, cast
from zlib import crc32

HANDLE_CHARS_MAX = 512
VERSION = 1
RETRY_FLAG = 1

_CHECK = Struct(">I")
_SAID = Struct(">BBiqq")
_WHOLE = Struct(">IBBiqq")
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_+/=", b"+/!!!")
_PADDING = (b"", b"!", b"==", b"=")
_WITH_RETRY = (0, RETRY_FLAG)


class Receipt(NamedTuple):
    """What a handle says: a message on lease at a broker."""

    broker: bytes
    is_retry: int
    queue_id: int
    offset: int
    lease: int


_new = cast("Callable[[type[Receipt], tuple[bytes, int, int, int, int]], Receipt]", tuple.__new__)
"""Makes the tuple in 0.15 us, which by its own name takes 0.4; there is one for each handle."""


class Receipts:
    """Makes and reads the handles of one group in one topic."""

    __slots__ = ("_seed",)

    def __init__(self, topic: str, group: str) -> None:
        self._seed = crc32(f"{topic}\0{group}".encode())

    def make(self, broker: bytes, is_retry: int, queue_id: int, offset: int, lease: int) -> bytes:
        """Return the handle of a message, as it stands in JSON."""
        said = _SAID.pack(VERSION, is_retry, queue_id, offset, lease) + broker
        whole = _CHECK.pack(crc32(said, self._seed)) + said
        return b2a_base64(whole, newline=False).translate(_TO_URL, b"=")

    def read(self, handle: str) -> Receipt | None:
        """Return what a handle says; None for one that is malformed, or of another group or topic."""
        if len(handle) > HANDLE_CHARS_MAX or not handle.isascii():
            return None
        text = handle.encode().translate(_FROM_URL)
        try:
            whole = a2b_base64(text + _PADDING[len(text) & 3], strict_mode=True)
        except Error:
            return None
        if len(whole) < _WHOLE.size:
            return None
        check, version, flags, queue_id, offset, lease = _WHOLE.unpack_from(whole)
        if check != crc32(whole[4:], self._seed) or version != VERSION or flags not in _WITH_RETRY:
            return None
        return _new(Receipt, (whole[_WHOLE.size :], flags, queue_id, offset, lease))
