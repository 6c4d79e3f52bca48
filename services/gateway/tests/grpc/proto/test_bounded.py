"""Requests of very many fields are refused before they are parsed."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError

from gateway.grpc.proto.bounded import FIELDS_MAX, FREE_BYTES, TooManyFields, parse
from gateway.grpc.proto.common import Resource
from gateway.grpc.proto.message import Message, SystemProperties
from gateway.grpc.proto.sending import SendMessageRequest


def field(number, content):
    size, length = len(content), bytearray()
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return bytes((number << 3 | 2,)) + bytes(length) + content


def test_a_full_send_is_parsed():
    users = {f"name{n}": "value" for n in range(128)}
    message = Message(
        topic=Resource(name="orders"),
        user_properties=users,
        system_properties=SystemProperties(message_id="m", tag="a", keys=["k1", "k2"], message_group="g"),
        body=b"x" * 64,
    )
    request = SendMessageRequest(messages=[message] * 1000)
    assert parse(SendMessageRequest, request.SerializeToString()) == request


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\x0a\x00" * (FIELDS_MAX + 1), id="messages"),
        pytest.param(field(1, b"\x12\x00" * (FIELDS_MAX + 1)), id="properties"),
        pytest.param(field(1, field(3, b"\x12\x00" * (FIELDS_MAX + 1))), id="keys"),
        pytest.param(field(1, b"\x13" + field(3, b"\x12\x00" * (FIELDS_MAX + 1)) + b"\x14"), id="in a group"),
    ],
)
def test_very_many_fields_are_not_parsed(content):
    with pytest.raises(TooManyFields):
        parse(SendMessageRequest, content)


@pytest.mark.parametrize("ending", [b"\x0a\xff\xff\xff\x7f", b"\x0a", b"\x08" + b"\xff" * 11, b"\x0f\x01"])
def test_what_no_parser_reads_is_no_message(ending):
    with pytest.raises(DecodeError):
        parse(SendMessageRequest, field(2, b"x" * FREE_BYTES) + ending)
