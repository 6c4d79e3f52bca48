"""What a hostile peer may send to a remoting port, and the expected reaction: a table shared by store and nameserver."""

from __future__ import annotations

import json
from dataclasses import dataclass

from .client import frame

CLOSED = None
"""The connection closes after responses to all valid frames before."""
NOT_SUPPORTED = 3
DEEP = 10_000


@dataclass(frozen=True)
class Attack:
    """Bytes, and the code of the one response, or CLOSED."""

    name: str
    data: bytes
    answer: int | None = CLOSED


def header(**fields: object) -> bytes:
    return json.dumps(
        {"code": 0, "flag": 0, "language": "JAVA", "opaque": 1, "version": 479} | fields
    ).encode()


def binary_header(code: int, *, remark_length: int = 0, fields_length: int = 0, rest: bytes = b"") -> bytes:
    """RocketMQ's binary header; the two lengths may be wrong."""
    return (
        code.to_bytes(2, "big") + b"\x00" + (479).to_bytes(2, "big") + (1).to_bytes(4, "big") + bytes(4)
        + remark_length.to_bytes(4, "big", signed=True) + fields_length.to_bytes(4, "big", signed=True) + rest
    )  # fmt: skip


BINARY = 1 << 24

ATTACKS = [
    Attack("a length of 2 GB", frame(b"", length=2**31 - 1)),
    Attack("a length just over the limit", frame(b"", length=16 * 1024 * 1024 + 1)),
    Attack("a negative length", frame(b"{}", length=-1)),
    Attack("a length of 0", frame(b"", length=0)),
    Attack("a length below the head", frame(b"", length=3)),
    Attack("a header longer than its frame", frame(header(code=34), mark=5000)),
    Attack("a header of 16 MB", frame(b"", length=100, mark=2**24 - 1)),
    Attack("an unknown serialize type", frame(header(code=34), mark=7 << 24 | len(header(code=34)))),
    Attack("serialize type 255", frame(header(code=34), mark=0xFF << 24 | len(header(code=34)))),
    Attack("no header", frame(b"")),
    Attack("a header that is no JSON", frame(b"code=34")),
    Attack("a header that is cut JSON", frame(b'{"code":34,')),
    Attack("a header that is no UTF-8", frame(b'{"code":"\xff\xfe"}')),
    Attack("a header that is a list", frame(b"[]")),
    Attack("a header that is null", frame(b"null")),
    Attack("10,000 deep lists", frame(b"[" * DEEP + b"]" * DEEP)),
    Attack("10,000 deep objects", frame(b'{"a":' * DEEP + b"1" + b"}" * DEEP)),
    Attack("10,000 deep in the fields", frame(b'{"code":105,"extFields":{"topic":' + b"[" * DEEP + b"]" * DEEP + b"}}")),
    Attack("10,000 deep and cut", frame(b"[" * DEEP)),
    Attack("fields that are a list", frame(header(code=105, extFields=[1, 2]))),
    Attack("a code that is text", frame(header(code="many"))),
    Attack("a code beyond 32 bits", frame(header(code=2**40))),
    Attack("an opaque beyond 32 bits", frame(header(code=105, opaque=2**63))),
    Attack("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    Attack("TLS", bytes.fromhex("16030100c8010000c40303") + bytes(200)),
    Attack("an unknown code", frame(header(code=9999)), NOT_SUPPORTED),
    Attack("a negative code", frame(header(code=-5)), NOT_SUPPORTED),
    Attack("an unknown version", frame(header(code=9999, version=-1)), NOT_SUPPORTED),
    Attack("a version of the far future", frame(header(code=9999, version=2**31 - 1)), NOT_SUPPORTED),
    Attack("an unknown language", frame(header(code=9999, language="KLINGON")), NOT_SUPPORTED),
    Attack("numbers as text", frame(header(code="9999", opaque="1", flag="0")), NOT_SUPPORTED),
    Attack("a binary header cut", frame(binary_header(9999)[:10], mark=BINARY | 10)),
    Attack("a binary header of nothing", frame(b"", mark=BINARY)),
    Attack("a binary remark that lies", frame(binary_header(9999, remark_length=2**31 - 1), mark=BINARY | 21)),
    Attack("binary fields that lie", frame(binary_header(9999, fields_length=2**31 - 1), mark=BINARY | 21)),
    Attack("negative binary lengths", frame(binary_header(9999, remark_length=-1, fields_length=-1), mark=BINARY | 21)),
    Attack("an unknown code in binary", frame(binary_header(9999), mark=BINARY | 21), NOT_SUPPORTED),
    Attack(
        "a binary field whose name lies",
        frame(binary_header(9999, fields_length=6, rest=b"\x7f\xffabcd"), mark=BINARY | 27),
    ),
]  # fmt: skip
