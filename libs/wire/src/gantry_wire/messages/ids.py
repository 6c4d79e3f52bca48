"""Message ids: offset message ids and the unique keys that producers create. Packs hosts as the log stores them.

A host is 4 or 16 address bytes and a 4-byte port. Takes the time and the process id as arguments.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from struct import Struct, pack

from gantry_wire.errors import MalformedMessageId

HOST_V4_BYTES = 8
HOST_V6_BYTES = 20
POSITION_CHARS = 16
"""Hexadecimal digits of the position at the end of an offset message id."""
MESSAGE_ID_CHARS = (2 * (HOST_V4_BYTES + 8), 2 * (HOST_V6_BYTES + 8))

_PORT = Struct(">i")
_POSITION = Struct(">q")
_COUNTER_MASK = 0xFFFF


@lru_cache(maxsize=4096)
def pack_host(ip: str, port: int) -> bytes:
    """Return address and port as the log stores them: 8 bytes for IPv4, 20 for IPv6. Raises ValueError for an invalid address."""
    address = ipaddress.ip_address(ip)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).packed + _PORT.pack(port)


def unpack_host(host: bytes) -> tuple[str, int]:
    """Return the address (as text) and the port of a packed host."""
    return str(ipaddress.ip_address(host[: -_PORT.size])), _PORT.unpack_from(host, len(host) - _PORT.size)[0]


def offset_message_id(host_bytes: bytes, position: int) -> str:
    """Return the id that identifies a record by store host and position in the log."""
    return f"{_hex(host_bytes)}{position:016X}"


def offset_message_ids(host_bytes: bytes, positions: Sequence[int]) -> str:
    """Return the ids of a batch's records, joined by commas. A position below 0 gives an empty id: that message has no record."""
    if min(positions) < 0:
        return ",".join([offset_message_id(host_bytes, at) if at >= 0 else "" for at in positions])
    store = _hex(host_bytes)
    texts = pack(f">{len(positions)}q", *positions).hex(",", _POSITION.size).upper()
    return store + texts.replace(",", f",{store}")


def parse_offset_message_id(text: str) -> tuple[str, int, int]:
    """Return store address, port and position. Raises MalformedMessageId if the text is not an offset message id."""
    if len(text) not in MESSAGE_ID_CHARS:
        raise MalformedMessageId(
            f"a message id has {MESSAGE_ID_CHARS[0]} or {MESSAGE_ID_CHARS[1]} characters, not {len(text)}"
        )
    try:
        packed = bytes.fromhex(text)
    except ValueError as error:
        raise MalformedMessageId("a message id has hexadecimal characters only") from error
    if len(packed) * 2 != len(text):
        raise MalformedMessageId("a message id has no spaces")
    ip, port = unpack_host(packed[: -_POSITION.size])
    return ip, port, _POSITION.unpack_from(packed, len(packed) - _POSITION.size)[0]


@lru_cache(maxsize=64)
def _hex(host_bytes: bytes) -> str:
    return host_bytes.hex().upper()


class UniqueIds:
    """Creates UNIQ_KEYs: a fixed prefix of address, process id and salt, then milliseconds of the month and a counter."""

    __slots__ = ("_counter", "_head", "_head_ms", "_month_end_ms", "_month_start_ms", "_prefix")

    def __init__(self, ip_bytes: bytes, pid: int, salt: int) -> None:
        """`ip_bytes` are 4 or 16 address bytes. `salt` is any number that differs between instances in one process."""
        assert len(ip_bytes) in (4, 16)
        self._prefix = f"{ip_bytes.hex()}{pid & 0xFFFF:04x}{salt & 0xFFFFFFFF:08x}".upper()
        self._counter = 0
        self._head, self._head_ms = "", -1
        self._month_start_ms = 0
        self._month_end_ms = 0

    def next(self, now_ms: int) -> str:
        """Return a new key. Keys are unique up to 65,536 per millisecond."""
        if now_ms != self._head_ms:
            if not self._month_start_ms <= now_ms < self._month_end_ms:
                self._turn_month(now_ms)
            self._head, self._head_ms = f"{self._prefix}{now_ms - self._month_start_ms:08X}", now_ms
        counter = self._counter
        self._counter = counter + 1 & _COUNTER_MASK
        return f"{self._head}{counter:04X}"

    def _turn_month(self, now_ms: int) -> None:
        first = datetime.fromtimestamp(now_ms / 1000, UTC).replace(
            day=1, hour=0, minute=0, second=0, microsecond=0
        )
        following = (first + timedelta(days=32)).replace(day=1)
        self._month_start_ms = int(first.timestamp()) * 1000
        self._month_end_ms = int(following.timestamp()) * 1000
