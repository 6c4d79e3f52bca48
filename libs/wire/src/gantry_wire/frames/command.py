"""A command is one request or response, read from a frame's header in either serialization.

Common headers are decoded directly into their type. If that fails (bare numbers, unknown shapes), a slower, tolerant
reader takes over. The only thing this module knows about a code is its usual header type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import msgspec

from gantry_wire.codes import language_name
from gantry_wire.errors import MalformedHeader
from gantry_wire.frames.binary_header import decode_binary_header
from gantry_wire.frames.frame_stream import JSON, RawFrame
from gantry_wire.headers.messages import (
    EndTransactionHeader,
    PullHeader,
    PullReplyHeader,
    SendHeader,
    SendHeaderV2,
    SendReplyHeader,
)
from gantry_wire.headers.typed_header import Header, Int32, field_text, header_from_fields
from gantry_wire.limits import INT32_MAX, INT32_MIN
from gantry_wire.private_requests.settling import SettleHeader

FLAG_RESPONSE = 1
FLAG_ONEWAY = 2

HeaderT = TypeVar("HeaderT", bound=Header)


class Command(msgspec.Struct, gc=False):
    """One request or response. `fields` holds the ext fields, as the code's usual header type if they decode as it."""

    code: Int32 = 0
    flag: Int32 = 0
    opaque: Int32 = 0
    version: Int32 = 0
    language: str = "OTHER"
    remark: str | None = None
    fields: Header | dict[str, str] | None = None
    body: bytes = b""
    serialize_type: int = JSON

    @property
    def is_response(self) -> bool:
        """Whether this is the reply to a request."""
        return bool(self.flag & FLAG_RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """Whether the sender expects no reply."""
        return bool(self.flag & FLAG_ONEWAY)

    @property
    def ext(self) -> dict[str, str]:
        """The ext fields as text. A typed header contains only the fields of its type."""
        fields = self.fields
        if fields is None:
            return {}
        return fields.to_fields() if isinstance(fields, Header) else fields

    def read(self, kind: type[HeaderT]) -> HeaderT:
        """Return the ext fields as a header of this type. Raises MissingField if a required field is absent."""
        fields = self.fields
        if isinstance(fields, kind):
            return fields
        return header_from_fields(self.ext, kind)


def _typed(kind: Any) -> Callable[[bytes], Command]:
    """Return a decoder of commands whose ext fields have one type."""
    envelope = msgspec.defstruct(
        "Command",
        [("fields", kind | None, msgspec.field(default=None, name="extFields"))],
        bases=(Command,),
        gc=False,
    )
    return cast("Callable[[bytes], Command]", msgspec.json.Decoder(envelope, strict=False).decode)


_plain = _typed(dict[str, str])
_send_v2 = _typed(SendHeaderV2)
_pull_reply = _typed(PullReplyHeader)

# Every sender writes its keys in alphabetical order, so the first twelve bytes contain the code.
_BY_PREFIX: dict[bytes, tuple[int, Callable[[bytes], Command]]] = {
    b'{"code":310,': (310, _send_v2),
    b'{"code":320,': (320, _send_v2),
    b'{"code":10,"': (10, _typed(SendHeader)),
    b'{"code":11,"': (11, _typed(PullHeader)),
    b'{"code":361,': (361, _typed(PullHeader)),
    b'{"code":37,"': (37, _typed(EndTransactionHeader)),
    b'{"code":9003': (9003, _typed(SettleHeader)),
    b'{"code":19,"': (19, _pull_reply),
    b'{"code":20,"': (20, _pull_reply),
    b'{"code":21,"': (21, _pull_reply),
}
_ANY = (0, _plain)
# In our own replies the first field identifies the kind of reply.
_SUCCESS_PREFIX = b'{"code":0,"e'
_FIRST_FIELD = slice(len(b'{"code":0,"extFields":{"'), len(b'{"code":0,"extFields":{"') + 6)
_BY_FIRST_FIELD: dict[bytes, Callable[[bytes], Command]] = {
    b'msgId"': _typed(SendReplyHeader),
    b"nextBe": _pull_reply,
}


def decode_command(raw: RawFrame) -> Command:
    """Read a frame's header. Raises MalformedHeader if it does not match its serialize type, JSON or binary."""
    header = raw.header
    if raw.serialize_type != JSON:
        return _decode_binary(raw)
    prefix = header[:12]
    code, decode = _BY_PREFIX.get(prefix, _ANY)
    if prefix == _SUCCESS_PREFIX:
        decode = _BY_FIRST_FIELD.get(header[_FIRST_FIELD], _plain)
    try:
        command = decode(header)
        if command.code != code and decode is not _plain:
            command = _plain(header)  # a later key "code" counts: another code has other fields
    except (ValueError, RecursionError):
        command = _decode_tolerant(header, decode)
    command.body = raw.body
    command.serialize_type = JSON
    return command


def decode_whole_command(raw: RawFrame) -> Command:
    """As `decode_command`, but with every ext field, as text: those that a code's usual header type does not know are signed, too."""
    if raw.serialize_type != JSON:
        return _decode_binary(raw)
    try:
        command = _plain(raw.header)
    except (ValueError, RecursionError):
        command = _decode_tolerant(raw.header, _plain)
    command.body = raw.body
    command.serialize_type = JSON
    return command


def _decode_binary(raw: RawFrame) -> Command:
    header = decode_binary_header(raw.header)
    return Command(
        code=header.code,
        flag=header.flag,
        opaque=header.opaque,
        version=header.version,
        language=header.language,
        remark=header.remark,
        fields=header.fields,
        body=raw.body,
        serialize_type=raw.serialize_type,
    )


def _decode_tolerant(header: bytes, tried: Callable[[bytes], Command]) -> Command:
    """Read a header that the typed decoder refused: first with text fields, then value by value."""
    try:
        if tried is not _plain:
            return _plain(header)
    except (ValueError, RecursionError):
        pass
    try:
        content: object = msgspec.json.decode(header)
    except (ValueError, RecursionError) as error:
        raise MalformedHeader(f"the header is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise MalformedHeader("the header is not a JSON object")
    return _command_from(cast("dict[str, object]", content))


def _command_from(content: dict[str, object]) -> Command:
    language, remark, fields = content.get("language"), content.get("remark"), content.get("extFields")
    if fields is not None and not isinstance(fields, dict):
        raise MalformedHeader("extFields is not a JSON object")
    return Command(
        code=_number(content, "code"),
        flag=_number(content, "flag"),
        opaque=_number(content, "opaque"),
        version=_number(content, "version"),
        language=_language(language),
        remark=None if remark is None else _text(remark),
        fields=None if fields is None else _texts(cast("dict[str, object]", fields)),
    )


def _number(content: dict[str, object], name: str) -> int:
    value = content.get(name)
    try:
        number = 0 if value is None else msgspec.convert(value, int, strict=False)
    except msgspec.ValidationError as error:
        raise MalformedHeader(f"{name} is not an integer") from error
    if not INT32_MIN <= number <= INT32_MAX:
        raise MalformedHeader(f"{name} does not fit 32 bits")
    return number


def _language(value: object) -> str:
    if isinstance(value, str):
        return value
    return language_name(value) if isinstance(value, int) else "OTHER"


def _texts(fields: dict[str, object]) -> dict[str, str]:
    return {name: _text(value) for name, value in fields.items() if value is not None}


def _text(value: object) -> str:
    """Return a JSON value as text: numbers and booleans as Java prints them, other values as JSON."""
    if isinstance(value, (str, bool, int, float)):
        return field_text(value)
    return msgspec.json.encode(value).decode()
