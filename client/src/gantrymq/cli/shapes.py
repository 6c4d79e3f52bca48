"""Formats a message on one line and in full. Pure."""

import base64
from collections.abc import Callable
from typing import Any

from gantry_wire.records.message_record import (
    SYS_COMPRESSED,
    SYS_COMPRESSION_LZ4,
    SYS_COMPRESSION_ZLIB,
    SYS_COMPRESSION_ZSTD,
)
from gantrymq.errors import GantryError

BODY_CHARS_MAX = 2000
"""The most of a body that a line shows; --json shows all of it."""
BINARY_CHARS_MAX = 200
"""The same for a binary body."""
COMPRESSIONS = {
    "zlib": SYS_COMPRESSION_ZLIB,
    "lz4": SYS_COMPRESSION_LZ4,
    "zstd": SYS_COMPRESSION_ZSTD,
}
"""The system flag of a body that the gateway returns compressed, by its `bodyCompression`."""
Paint = Callable[[str, str], str]


def counted(number: int, noun: str) -> str:
    """Return `1 message`, `2 messages`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def body_text(message: dict[str, Any]) -> str:
    """Return the body as text; binary bytes as base64, marked as such."""
    if message.get("body") is not None:
        return str(message["body"])
    encoded = str(message.get("bodyBase64") or "")
    compression = message.get("bodyCompression")
    if compression:
        try:
            return body_bytes(message).decode()
        except (GantryError, UnicodeDecodeError):
            return f"{compression} base64:{encoded}"
    return f"base64:{encoded}" if encoded else ""


def body_bytes(message: dict[str, Any]) -> bytes:
    """Return the body as it was sent, decompressed. Raises UnreadableBody."""
    if message.get("body") is not None:
        return str(message["body"]).encode()
    body = base64.b64decode(str(message.get("bodyBase64") or ""))
    compression = message.get("bodyCompression")
    if not compression:
        return body
    from gantrymq.formats.compression import decompress

    return decompress(body, SYS_COMPRESSED | COMPRESSIONS[compression])


def printable(text: str, kept: str = "") -> str:
    """Return text with its control characters escaped: a terminal would obey those of an untrusted message. `kept` stay."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in kept else repr(char)[1:-1] for char in text)


def one_line(text: str, chars_max: int = BODY_CHARS_MAX) -> str:
    """Return text without line breaks and control characters, cut to a maximum length."""
    shown = printable(text[:chars_max])
    return shown if len(text) <= chars_max else f"{shown}… ({len(text)} characters)"


def message_line(message: dict[str, Any], paint: Paint) -> str:
    """Return a message on one line: its store time, place, tag, keys, body."""
    when = str(message["storeTimestamp"]).replace("T", " ").removesuffix("Z")
    place = f"{message['broker']}:{message['queueId']}@{message['queueOffset']}"
    words = [paint(when, "dim"), paint(place, "cyan")]
    if message.get("tag"):
        words.append(paint(f"[{printable(message['tag'])}]", "yellow"))
    words += [paint(f"#{printable(key)}", "green") for key in message["keys"]]
    chars_max = BODY_CHARS_MAX if message.get("body") is not None else BINARY_CHARS_MAX
    return " ".join([*words, one_line(body_text(message), chars_max)])


def message_fields(message: dict[str, Any]) -> list[tuple[str, object]]:
    """Return a message in full, as names and values."""
    named: list[tuple[str, object]] = [
        ("message id", message["messageId"]),
        ("offset id", message["offsetMessageId"]),
        ("topic", message["topic"]),
        ("queue", f"{message['broker']}:{message['queueId']}"),
        ("offset", message["queueOffset"]),
        ("tag", message.get("tag")),
        ("keys", message["keys"]),
        ("born", message["bornTimestamp"]),
        ("stored", message["storeTimestamp"]),
        ("repeats", message["reconsumeTimes"]),
    ]
    for name, label in (("shardingKey", "sharding key"), ("idempotencyKey", "idempotency key")):
        if message.get(name):
            named.append((label, message[name]))
    kinds = {"properties": "property", "systemProperties": "system property", "deadLetter": "dead letter"}
    for group, kind in kinds.items():
        values: dict[str, Any] = message.get(group) or {}
        named += [(f"{kind} {name}", value) for name, value in values.items()]
    return [*named, ("body", one_line(body_text(message)))]
