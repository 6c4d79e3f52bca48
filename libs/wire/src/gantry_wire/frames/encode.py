"""Encodes commands as frames. Hot replies are filled templates; every ext value is written as text.

Knows no connection: each function returns the bytes of one frame or of its head.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from gantry_wire.codes import VERSION
from gantry_wire.frames.binary_header import BinaryHeader, encode_binary_header
from gantry_wire.frames.command import FLAG_ONEWAY, FLAG_RESPONSE
from gantry_wire.frames.frame_stream import BINARY, FRAME_HEAD, JSON
from gantry_wire.headers.typed_header import Header
from gantry_wire.messages.ids import POSITION_CHARS, offset_message_id

Fields = Header | dict[str, str] | None

REQUEST_LANGUAGE = "PYTHON"
REPLY_LANGUAGE = "JAVA"
"""RocketMQ's own servers send this language. Clients in other languages were tested against nothing else."""

_END = f',"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'
_REPLY_TAIL = f'}},"flag":1,"language":"{REPLY_LANGUAGE}","opaque":'
_SEND_HEAD = '{"code":0,"extFields":{"msgId":"'
_SEND_TAIL = '","MSG_REGION":"DefaultRegion","TRACE_ON":"true"'
_HEAD_REST = 4  # bytes of the head that the frame length counts

_encode_json = msgspec.json.Encoder().encode


def encode_request(
    code: int,
    opaque: int,
    header: Fields = None,
    body: bytes = b"",
    *,
    oneway: bool = False,
    serialize_type: int = JSON,
) -> bytes:
    """Return a whole request frame."""
    flag = FLAG_ONEWAY if oneway else 0
    fields = _texts(header)
    if serialize_type == BINARY:
        return _binary_frame(BinaryHeader(code, REQUEST_LANGUAGE, VERSION, opaque, flag, None, fields), body)
    text = (
        f'{{"code":{code},"extFields":{_encode_json(fields).decode()},"flag":{flag}'
        f',"language":"{REQUEST_LANGUAGE}","opaque":{opaque}{_END}'
    )
    return _json_frame(text, body)


def encode_response(
    code: int,
    opaque: int,
    header: Fields = None,
    body: bytes = b"",
    remark: str | None = None,
    serialize_type: int = JSON,
) -> bytes:
    """Return a whole response frame. It always has an extFields object: the C++ client fails without one."""
    fields = _texts(header)
    if serialize_type == BINARY:
        return _binary_frame(
            BinaryHeader(code, REPLY_LANGUAGE, VERSION, opaque, FLAG_RESPONSE, remark, fields), body
        )
    remark_json = "" if remark is None else f',"remark":{_encode_json(remark).decode()}'
    text = f'{{"code":{code},"extFields":{_encode_json(fields).decode()[:-1]}{_REPLY_TAIL}{opaque}{remark_json}{_END}'
    return _json_frame(text, body)


def encode_send_reply(
    opaque: int,
    msg_id: str,
    queue_id: int,
    queue_offset: int,
    transaction_id: str,
    extra: bytes = b"",
) -> bytes:
    """Return the reply to a stored send. `extra` is encoded JSON of further ext fields: `,"name":"value"…`."""
    if not (transaction_id.isalnum() and transaction_id.isascii()):
        transaction_id = _encode_json(transaction_id).decode()[1:-1]  # chosen by the client, so escape it
    header = (
        f'{_SEND_HEAD}{msg_id}","queueId":"{queue_id}","queueOffset":"{queue_offset}","transactionId":"'
        f"{transaction_id}{_SEND_TAIL}{extra.decode()}{_REPLY_TAIL}{opaque}{_END}"
    ).encode()
    size = len(header)
    return FRAME_HEAD.pack(_HEAD_REST + size, size) + header


def encode_send_replies(
    replies: Iterable[tuple[int, int, int, int, str]], store_host: bytes, extra: bytes
) -> bytes:
    """Return the replies to sends stored with one durability: (opaque, position, queue id, offset, transaction id) each.

    The bytes equal those of `encode_send_reply`. Transaction ids must be letters and digits only: they are not escaped;
    use `encode_send_reply` for a text that the client chose.
    """
    head = f"{_SEND_HEAD}{offset_message_id(store_host, 0)[:-POSITION_CHARS]}"
    tail = f"{_SEND_TAIL}{extra.decode()}{_REPLY_TAIL}"
    parts: list[str] = []
    for opaque, position, queue_id, queue_offset, transaction_id in replies:
        header = (
            f'{head}{position:016X}","queueId":"{queue_id}","queueOffset":"{queue_offset}","transactionId":"'
            f"{transaction_id}{tail}{opaque}{_END}"
        )
        parts += (_frame_head_text(len(header)), header)
    return "".join(parts).encode("latin-1")


@lru_cache(maxsize=1024)
def _frame_head_text(size: int) -> str:
    """Return the frame head of a JSON header without body as text, one character per byte, to be joined and encoded once."""
    return FRAME_HEAD.pack(_HEAD_REST + size, size).decode("latin-1")


def encode_pull_reply_head(
    code: int,
    opaque: int,
    next_offset: int,
    min_offset: int,
    max_offset: int,
    suggest: int,
    remark: str,
    body_size: int,
) -> bytes:
    """Return the frame head and header of a pull reply. The caller writes `body_size` bytes of records after it."""
    header = (
        f'{{"code":{code},"extFields":{{"nextBeginOffset":"{next_offset}","minOffset":"{min_offset}"'
        f',"maxOffset":"{max_offset}","suggestWhichBrokerId":"{suggest}"{_REPLY_TAIL}{opaque}'
        f',"remark":"{remark}"{_END}'
    ).encode()
    size = len(header)
    return FRAME_HEAD.pack(_HEAD_REST + size + body_size, size) + header


def _texts(header: Fields) -> dict[str, str]:
    if isinstance(header, Header):
        return header.to_fields()
    return header or {}


def _json_frame(text: str, body: bytes) -> bytes:
    header = text.encode()
    size = len(header)
    return b"".join((FRAME_HEAD.pack(_HEAD_REST + size + len(body), size), header, body))


def _binary_frame(header: BinaryHeader, body: bytes) -> bytes:
    content = encode_binary_header(header)
    size = len(content)
    return b"".join((FRAME_HEAD.pack(_HEAD_REST + size + len(body), BINARY << 24 | size), content, body))
