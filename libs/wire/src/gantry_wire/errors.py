"""Errors of this package, each with the code to answer, whether to retry and whether to close. MalformedFrame is in `frames.frame_stream`."""

from __future__ import annotations

from gantry_wire.codes import RETRYABLE, ResponseCode


class WireError(Exception):
    """Bytes from a peer or a file break the protocol.

    `code`: the response code a server answers, if it can answer. `retry`: the same bytes may be sent again.
    `close`: the stream they came from can no longer be trusted.
    """

    code: ResponseCode = ResponseCode.SYSTEM_ERROR
    retry: bool = False
    close: bool = False


class MalformedHeader(WireError):
    """The header of a frame is neither valid JSON nor valid binary. Close the connection, as RocketMQ does."""

    close = True


class MissingField(WireError):
    """A required header field is absent or cannot be read as its type. Answer code 1 with this message."""

    def __init__(self, field: str) -> None:
        super().__init__(f"header field {field} is missing or unreadable")
        self.field = field


class MalformedRecord(WireError):
    """Bytes in a log or a pull reply are not a complete, intact message record."""


class MalformedProperties(WireError):
    """Properties are not UTF-8, or a key or value to be written contains a separator."""

    code = ResponseCode.MESSAGE_ILLEGAL


class MalformedBatch(WireError):
    """The body of a send batch does not divide into messages. Store none of it."""

    code = ResponseCode.MESSAGE_ILLEGAL


class MalformedBody(WireError):
    """A request or reply body is not the JSON, text or compressed form that its code requires."""


class MalformedMessageId(WireError):
    """A text is not an offset message id: 32 (IPv4) or 56 (IPv6) hexadecimal characters."""


class IllegalName(WireError):
    """A topic or group name is empty, too long or contains a forbidden character. The message states the rule."""

    code = ResponseCode.INVALID_PARAMETER


class MalformedExpression(WireError):
    """A subscription expression cannot be read."""

    code = ResponseCode.SUBSCRIPTION_PARSE_FAILED


class RefusedRequest(WireError):
    """A handler raises this to answer an error code with a remark and optional reply fields."""

    def __init__(self, code: ResponseCode, remark: str, fields: dict[str, str] | None = None) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
        self.fields = fields
        self.retry = code in RETRYABLE
