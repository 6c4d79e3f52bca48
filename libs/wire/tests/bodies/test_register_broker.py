"""Both forms of a register body have the same content, and a stream with wrong lengths is refused."""

import struct
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.bodies import register_broker as register_body
from gantry_wire.bodies.cluster import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from gantry_wire.bodies.register_broker import body_crc, decode_register_body, encode_register_body
from gantry_wire.errors import MalformedBody
from gantry_wire.limits import INFLATED_BYTES_MAX

NAMES = st.text("abc%|-_", min_size=1, max_size=8)
TOPICS = st.builds(
    TopicConfig,
    topic_name=NAMES,
    read_queue_nums=st.integers(0, 64),
    write_queue_nums=st.integers(0, 64),
    perm=st.integers(0, 7),
    topic_filter_type=st.sampled_from(["SINGLE_TAG", "MULTI_TAG"]),
    attributes=st.dictionaries(NAMES, st.text("xy ", max_size=5)),
)
BODIES = st.builds(
    lambda topics, servers, version: RegisterBrokerBody(
        filter_server_list=servers,
        topic_config_serialize_wrapper=TopicConfigSerializeWrapper(
            data_version=version, topic_config_table={topic.topic_name: topic for topic in topics}
        ),
    ),
    st.lists(TOPICS, max_size=5),
    st.lists(NAMES, max_size=2),
    st.builds(DataVersion, counter=st.integers(0, 2**40), timestamp=st.integers(0, 2**40)),
)


def sized(part: bytes) -> bytes:
    return struct.pack(">i", len(part)) + part


@given(BODIES, st.booleans())
def test_a_register_body_round_trips_in_both_forms(body, compressed):
    assert (
        decode_register_body(encode_register_body(body, compressed=compressed), compressed=compressed) == body
    )


@given(BODIES, st.data())
def test_a_flipped_bit_of_the_inflated_parts_gives_a_body_or_the_documented_error(body, data):
    parts = bytearray(zlib.decompress(encode_register_body(body, compressed=True)))
    bit = data.draw(st.integers(0, len(parts) * 8 - 1))
    parts[bit // 8] ^= 1 << bit % 8
    for candidate in (bytes(parts), bytes(parts)[: bit // 8]):
        with suppress(MalformedBody):
            found = decode_register_body(zlib.compress(candidate), compressed=True)
            assert isinstance(found, RegisterBrokerBody)


def test_a_compressed_body_labelled_uncompressed_is_read():
    body = RegisterBrokerBody(filter_server_list=["a"])
    assert decode_register_body(encode_register_body(body, compressed=True), compressed=False) == body


def test_an_empty_body_has_no_topics():
    assert decode_register_body(b"", compressed=True) == decode_register_body(b"", compressed=False)


def test_topics_of_old_brokers_have_no_attributes():
    version = sized(b'{"counter":1,"timestamp":2}')
    stream = version + struct.pack(">i", 1) + sized(b"T 8 4 6 SINGLE_TAG") + sized(b"")
    body = decode_register_body(zlib.compress(stream), compressed=True)
    assert body.topic_config_serialize_wrapper.topic_config_table == {
        "T": TopicConfig(topic_name="T", read_queue_nums=8, write_queue_nums=4)
    }


HEAD = sized(b"{}")
NONE = struct.pack(">i", 0)


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (b"", "ends inside a length"),
        (struct.pack(">i", -1), "length of -1"),
        (struct.pack(">i", 2**31 - 1), "length of 2147483647"),
        (HEAD + struct.pack(">i", 100), "length of 100"),
        (HEAD + struct.pack(">i", 1) + sized(b"T 8 4 6"), "a topic has 4 parts"),
        (HEAD + struct.pack(">i", 1) + sized(b"T x 4 6 SINGLE_TAG"), "cannot be read"),
        (HEAD + struct.pack(">i", 1) + sized(b"T 1 4 6 SINGLE_TAG [1]"), "cannot be read"),
        (HEAD + struct.pack(">i", 1) + sized(b"\xff 1 4 6 SINGLE_TAG"), "cannot be read"),
        (HEAD + NONE + sized(b"{}"), "filter servers"),
        (HEAD + NONE, "ends inside a length"),
        (sized(b"[]"), "not a valid DataVersion"),
    ],
)
def test_wrong_parts_are_refused(stream, message):
    with pytest.raises(MalformedBody, match=message):
        decode_register_body(zlib.compress(stream), compressed=True)


@pytest.mark.parametrize("data", [b"nonsense", zlib.compress(HEAD + NONE + sized(b"[]"))[:-1]])
def test_an_incomplete_stream_is_refused(data):
    with pytest.raises(MalformedBody):
        decode_register_body(data, compressed=True)


def test_a_decompression_bomb_stops_at_the_limit(monkeypatch):
    assert INFLATED_BYTES_MAX >= 16 * 1024 * 1024
    monkeypatch.setattr(register_body, "INFLATED_BYTES_MAX", 1000)
    with pytest.raises(MalformedBody, match="beyond 1000 bytes"):
        decode_register_body(zlib.compress(bytes(100_000)), compressed=True)


def test_the_crc_has_no_sign_bit():
    assert body_crc(b"123456789") == 0xCBF43926 & 0x7FFFFFFF
