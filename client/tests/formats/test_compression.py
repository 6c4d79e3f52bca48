"""A compressed body is read as it was sent, or UnreadableBody says why not: truncated, damaged or forged ones."""

import itertools
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from gantry_wire.records.message_record import SYS_COMPRESSED, SYS_COMPRESSION_LZ4, SYS_COMPRESSION_ZSTD
from gantrymq import GantryError, UnreadableBody
from gantrymq.formats.compression import COMPRESSED_FLAGS, DECOMPRESSED_BYTES_MAX, compress, decompress
from gantrymq.http.leased import LeasedMessage

ZSTD, LZ4 = SYS_COMPRESSED | SYS_COMPRESSION_ZSTD, SYS_COMPRESSED | SYS_COMPRESSION_LZ4
bodies = some.one_of(
    some.binary(min_size=1, max_size=300), some.binary(min_size=1, max_size=9).map(lambda part: part * 500)
)


def zstd(body: bytes) -> bytes:
    return pytest.importorskip("zstandard").ZstdCompressor().compress(body)


def zstd_of_unknown_size(body: bytes) -> bytes:
    stream = pytest.importorskip("zstandard").ZstdCompressor().compressobj()
    return stream.compress(body) + stream.flush()


def lz4(body: bytes) -> bytes:
    """As Java's LZ4FrameOutputStream: without a checksum of the content, so what is flipped there cannot be seen."""
    return pytest.importorskip("lz4.frame").compress(body, store_size=False)


CODECS = [
    pytest.param(compress, COMPRESSED_FLAGS, id="zlib"),
    pytest.param(compress, SYS_COMPRESSED, id="zlib of old clients"),
    pytest.param(zstd, ZSTD, id="zstd"),
    pytest.param(zstd_of_unknown_size, ZSTD, id="zstd of unknown size"),
    pytest.param(lz4, LZ4, id="lz4"),
]


@pytest.mark.parametrize(("pack", "flags"), CODECS)
@given(body=bodies, data=some.data())
def test_a_body_truncated_anywhere_is_unreadable(pack, flags, body, data) -> None:
    packed = pack(body)
    assert decompress(packed, flags) == body
    cut = data.draw(some.integers(0, len(packed) - 1))
    with pytest.raises(UnreadableBody):
        decompress(packed[:cut], flags)


@pytest.mark.parametrize(("pack", "flags"), CODECS)
@settings(max_examples=300)
@given(body=bodies, data=some.data())
def test_a_flipped_byte_raises_no_error_of_a_library(pack, flags, body, data) -> None:
    packed = bytearray(pack(body))
    at = data.draw(some.integers(0, len(packed) - 1))
    packed[at] ^= data.draw(some.integers(1, 255))
    try:
        read = decompress(bytes(packed), flags)
    except UnreadableBody:
        return
    assert len(read) <= DECOMPRESSED_BYTES_MAX
    if pack is compress:
        assert read == body, "zlib has a checksum"


@pytest.mark.parametrize("flags", [COMPRESSED_FLAGS, ZSTD, LZ4, SYS_COMPRESSED | 0x400, SYS_COMPRESSED])
@given(body=some.binary(max_size=60))
def test_a_body_that_was_never_compressed_is_unreadable(flags, body) -> None:
    with pytest.raises(UnreadableBody):
        decompress(body, flags)


@pytest.mark.parametrize(("pack", "flags"), CODECS)
def test_a_decompressed_body_has_a_size_limit(monkeypatch, pack, flags) -> None:
    monkeypatch.setattr("gantrymq.formats.compression.DECOMPRESSED_BYTES_MAX", 100_000)
    assert decompress(pack(bytes(100_000)), flags) == bytes(100_000)
    with pytest.raises(UnreadableBody, match="more than 100000 bytes"):
        decompress(pack(bytes(100_001)), flags)


def test_a_frame_that_announces_too_much_takes_no_memory() -> None:
    zstandard = pytest.importorskip("zstandard")
    promise = b"\x28\xb5\x2f\xfd" + b"\xe0" + (2**40).to_bytes(8, "little") + zstd(b"x")[6:]
    assert zstandard.frame_content_size(promise) == 2**40
    with pytest.raises(UnreadableBody, match="more than"):
        decompress(promise, ZSTD)


def test_a_missing_library_is_named(monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "lz4.frame", None)
    with pytest.raises(UnreadableBody, match="pip install lz4"):
        decompress(b"x", LZ4)


def test_a_stream_decoder_is_read_to_its_limit_and_its_end(monkeypatch) -> None:
    """The library of LZ4 is seldom there: one of the same form shows that bound, end and errors are looked at."""

    class Frames:
        class LZ4FrameDecompressor:
            def __init__(self) -> None:
                self._stream = zlib.decompressobj()

            @property
            def eof(self) -> bool:
                return self._stream.eof

            def decompress(self, data: bytes, max_length: int) -> bytes:
                try:
                    return self._stream.decompress(data, max_length)
                except zlib.error as error:
                    raise RuntimeError("LZ4F_decompress failed") from error

    monkeypatch.setitem(__import__("sys").modules, "lz4", Frames)
    monkeypatch.setitem(__import__("sys").modules, "lz4.frame", Frames)
    packed = zlib.compress(b"body" * 100)
    assert decompress(packed, LZ4) == b"body" * 100
    for cut in range(len(packed)):
        with pytest.raises(UnreadableBody):
            decompress(packed[:cut], LZ4)
    with pytest.raises(UnreadableBody, match="LZ4F_decompress failed"):
        decompress(b"nothing", LZ4)
    monkeypatch.setattr("gantrymq.formats.compression.DECOMPRESSED_BYTES_MAX", 399)
    with pytest.raises(UnreadableBody, match="more than 399 bytes"):
        decompress(packed, LZ4)


def test_a_leased_message_with_a_damaged_body_says_so() -> None:
    fields = dict.fromkeys(LeasedMessage.__struct_fields__)
    message = LeasedMessage(**{**fields, "data": compress(b"x" * 100)[:-1], "body_compression": "ZLIB"})
    with pytest.raises(UnreadableBody, match="truncated") as raised:
        _ = message.body
    assert isinstance(raised.value, GantryError)


def test_each_compression_flag_is_known_or_refused() -> None:
    for high, low in itertools.product(range(8), (0, 1)):
        flags = high << 8 | low
        if not low:
            assert decompress(b"as it is", flags) == b"as it is"
        elif high not in {1, 2}:
            readable = high in {0, 3}
            if readable:
                assert decompress(compress(b"x"), flags) == b"x"
            else:
                with pytest.raises(UnreadableBody, match="is unknown"):
                    decompress(compress(b"x"), flags)
