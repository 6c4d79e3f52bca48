"""A stream, cut anywhere, gives whole frames in order, or is refused."""

import struct
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_wire.frames.frame_stream import FrameDecoder, MalformedFrame, RawFrame
from gantry_wire.limits import FRAME_BYTES_MAX

FRAMES = st.lists(
    st.builds(RawFrame, st.sampled_from([0, 1]), st.binary(max_size=60), st.binary(max_size=60)), max_size=8
)


def frame_bytes(frame: RawFrame) -> bytes:
    head = struct.pack(
        ">iI", 4 + len(frame.header) + len(frame.body), frame.serialize_type << 24 | len(frame.header)
    )
    return head + frame.header + frame.body


def head(length: int, kind: int = 0, header_size: int = 0) -> bytes:
    return struct.pack(">iI", length, kind << 24 | header_size)


@given(FRAMES, st.lists(st.integers(0, 1000), max_size=12))
def test_any_cut_of_the_stream_gives_the_same_frames(frames, cuts):
    stream = b"".join(map(frame_bytes, frames))
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    decoder = FrameDecoder()
    found = []
    for start, end in pairwise(edges):
        found += decoder.receive(stream[start:end])
    assert found == frames
    assert decoder.buffered_bytes == 0


@given(FRAMES)
def test_single_bytes_give_the_same_frames(frames):
    decoder = FrameDecoder()
    found = []
    for byte in b"".join(map(frame_bytes, frames)):
        found += decoder.receive(bytes((byte,)))
    assert found == frames


@given(FRAMES.filter(bool), st.data())
def test_a_flipped_bit_gives_frames_or_the_documented_error(frames, data):
    stream = bytearray(b"".join(map(frame_bytes, frames)))
    bit = data.draw(st.integers(0, len(stream) * 8 - 1))
    stream[bit // 8] ^= 1 << bit % 8
    try:
        found = FrameDecoder().receive(bytes(stream))
    except MalformedFrame as error:
        found = error.frames
    assert all(type(frame) is RawFrame for frame in found)
    assert sum(8 + len(frame.header) + len(frame.body) for frame in found) <= len(stream)


@given(st.binary(max_size=200))
def test_any_bytes_give_frames_or_the_documented_error(data):
    with suppress(MalformedFrame):
        assert isinstance(FrameDecoder().receive(data), list)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (head(FRAME_BYTES_MAX - 3), "frame length"),
        (head(3), "frame length"),
        (head(-1), "frame length"),
        (head(100, kind=2), "serialize type 2"),
        (head(100, kind=255), "serialize type 255"),
        (head(10, header_size=7), "header of 7 bytes does not fit"),
        (b"GET ", "an HTTP request"),
        (b"\x00\x00\x00\x03", "frame length"),
    ],
)
def test_wrong_lengths_are_refused_before_a_body_is_buffered(data, message):
    decoder = FrameDecoder()
    with pytest.raises(MalformedFrame, match=message):
        decoder.receive(data)
    assert decoder.buffered_bytes == 0


def test_the_limit_counts_the_length_field_itself():
    decoder = FrameDecoder()
    assert decoder.receive(head(FRAME_BYTES_MAX - 4)) == []
    assert decoder.receive(bytes(FRAME_BYTES_MAX - 9)) == []
    (frame,) = decoder.receive(b"x")
    assert len(frame.body) == FRAME_BYTES_MAX - 8


def test_a_header_can_fill_its_frame():
    assert FrameDecoder().receive(head(6, header_size=2) + b"{}") == [RawFrame(0, b"{}", b"")]


def test_frames_before_a_bad_frame_come_with_the_error():
    good = RawFrame(0, b"{}", b"body")
    decoder = FrameDecoder()
    with pytest.raises(MalformedFrame) as caught:
        decoder.receive(frame_bytes(good) + head(-5))
    assert caught.value.frames == [good]
    with pytest.raises(MalformedFrame):
        decoder.receive(frame_bytes(good))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b"HTTP/1.1 400 Bad Request\r\n",
            "an HTTP answer: this is an HTTP port; the nameserver's default port is 9876",
        ),
        (b"HTTP", "an HTTP answer"),
        (
            b"GET / HTTP/1.1\r\n\r\n",
            "an HTTP request: this is not an HTTP port; the gateway's default port is 8080",
        ),
        (b"POST /v1/topics", "an HTTP request"),
    ],
)
def test_http_is_named_in_the_error(data: bytes, message: str) -> None:
    with pytest.raises(MalformedFrame, match=message):
        FrameDecoder().receive(data)
