"""Frames have the form that RocketMQ's clients need: all ext values are text, and there is always an extFields object."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.codes import VERSION
from gantry_wire.frames.command import Command, decode_command
from gantry_wire.frames.encode import (
    encode_pull_reply_head,
    encode_request,
    encode_response,
    encode_send_replies,
    encode_send_reply,
)
from gantry_wire.frames.frame_stream import BINARY, FrameDecoder
from gantry_wire.headers.messages import OffsetReplyHeader, PullReplyHeader, QueueHeader, SendReplyHeader
from gantry_wire.messages.ids import offset_message_id, pack_host

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def one(data: bytes) -> Command:
    (raw,) = FrameDecoder().receive(data)
    return decode_command(raw)


def header_json(data: bytes) -> dict[str, object]:
    (raw,) = FrameDecoder().receive(data)
    return json.loads(raw.header)


@given(
    st.integers(0, 400),
    st.integers(-(2**31), 2**31 - 1),
    st.dictionaries(TEXT, TEXT),
    st.binary(max_size=50),
    st.booleans(),
)
def test_a_json_request_round_trips(code, opaque, fields, body, oneway):
    read = one(encode_request(code, opaque, fields, body, oneway=oneway))
    assert (read.code, read.opaque, read.body, read.is_oneway, read.is_response) == (
        code,
        opaque,
        body,
        oneway,
        False,
    )
    assert read.version == VERSION
    if not isinstance(read.fields, dict):
        return  # a code with a typed header, which drops arbitrary names
    assert read.fields == fields


@given(
    st.integers(0, 400), st.none() | TEXT.filter(bool), st.dictionaries(TEXT, TEXT.filter(bool), min_size=1)
)
def test_a_binary_response_round_trips(code, remark, fields):
    read = one(encode_response(code, 5, fields, b"b", remark, BINARY))
    assert (read.code, read.opaque, read.remark, read.fields, read.body) == (code, 5, remark, fields, b"b")
    assert read.is_response
    assert read.serialize_type == BINARY


def test_a_binary_oneway_request_has_the_oneway_flag():
    read = one(encode_request(15, 1, {"a": "b"}, oneway=True, serialize_type=BINARY))
    assert (read.is_oneway, read.fields) == (True, {"a": "b"})


@given(st.none() | TEXT)
def test_a_response_always_has_ext_fields(remark):
    content = header_json(encode_response(17, 3, remark=remark))
    assert content["extFields"] == {}
    assert (content["flag"], content["opaque"], content["language"], content.get("remark")) == (
        1,
        3,
        "JAVA",
        remark,
    )


def test_every_ext_value_is_text():
    content = header_json(encode_response(0, 3, OffsetReplyHeader(offset=12)))
    assert content["extFields"] == {"offset": "12"}
    content = header_json(encode_request(30, 3, QueueHeader(topic="T", queue_id=0, committed=True)))
    assert content["extFields"] == {"topic": "T", "queueId": "0", "committed": "true"}


@given(TEXT)
def test_a_send_reply_round_trips_with_any_transaction_id(transaction_id):
    data = encode_send_reply(7, "A1" * 16, 3, 99, transaction_id, b',"durability":"fsync","duplicate":"true"')
    header = one(data).read(SendReplyHeader)
    assert (header.msg_id, header.queue_id, header.queue_offset) == ("A1" * 16, 3, 99)
    assert (header.transaction_id, header.durability, header.duplicate) == (transaction_id, "fsync", True)
    assert all(type(value) is str for value in header_json(data)["extFields"].values())


def test_a_send_reply_has_the_fields_that_every_client_reads():
    content = header_json(encode_send_reply(7, "M", 3, 99, "U"))
    assert content["extFields"] == {
        "msgId": "M", "queueId": "3", "queueOffset": "99", "transactionId": "U",
        "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
    }  # fmt: skip


@pytest.mark.parametrize("code", [0, 19, 20, 21])
def test_the_head_of_a_pull_reply_counts_the_body_that_follows(code):
    body = b"records" * (code == 0)
    data = encode_pull_reply_head(code, 7, 5, 1, 9, 0, "FOUND", len(body)) + body
    assert struct.unpack_from(">i", data)[0] == len(data) - 4
    read = one(data)
    assert (read.code, read.remark, read.body) == (code, "FOUND", body)
    assert read.read(PullReplyHeader) == PullReplyHeader(
        suggest_which_broker_id=0, next_begin_offset=5, min_offset=1, max_offset=9
    )


@given(
    st.lists(
        st.tuples(
            st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1),
            st.text(st.sampled_from("0123456789ABCDEFabcxyz"), min_size=1, max_size=300),
        ),
        max_size=5,
    ),
    st.sampled_from([pack_host("10.0.0.1", 10911), pack_host("2001:db8::1", 1)]),
)  # fmt: skip
def test_replies_encoded_together_equal_single_replies(replies, host):
    extra = b',"durability":"fsync"'
    singles = [
        encode_send_reply(opaque, offset_message_id(host, position), queue_id, offset, key, extra)
        for opaque, position, queue_id, offset, key in replies
    ]
    assert encode_send_replies(replies, host, extra) == b"".join(singles)
