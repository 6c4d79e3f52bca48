"""The few forms of Protocol Buffers that health and reflection need, so that this library depends on no other one."""

from collections.abc import Iterator

from gantry_link.grpc.status import GrpcError, GrpcStatus

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_SIZES = {FIXED64: 8, FIXED32: 4}


def bytes_field(number: int, value: bytes) -> bytes:
    """Return a field with bytes, a text or a message."""
    return _varint(number << 3 | BYTES) + _varint(len(value)) + value


def number_field(number: int, value: int) -> bytes:
    """Return a field with a number that is not negative."""
    return _varint(number << 3 | VARINT) + _varint(value)


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of each field with bytes. Raises GrpcError for what is no message."""
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        kind = tag & 7
        if kind == VARINT:
            _value, at = _read_varint(message, at)
            continue
        if kind == BYTES:
            size, at = _read_varint(message, at)
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise _malformed()
        if at + size > len(message):
            raise _malformed()
        if kind == BYTES:
            yield tag >> 3, message[at : at + size]
        at += size


def text_of(content: bytes) -> str:
    """Return the text of a field. Raises GrpcError."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise _malformed() from None


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(message[at : at + 10]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise _malformed()


def _malformed() -> GrpcError:
    return GrpcError(GrpcStatus.INVALID_ARGUMENT, "the message is malformed")
