"""The errors this package raises (a malformed frame's stands with the decoder), with what to do next: the code to answer, whether to retry, whether to close."""

from __future__ import annotations

from gantry_wire.codes import RETRYABLE, ResponseCode


class WireError(Exception):
    """Something the peer sent, or a file held, breaks the protocol.

    `code` is what a server answers when it can answer at all, `retry` says whether the same bytes may be
    sent again, `close` whether the stream they came from can no longer be trusted.
    """

    code: ResponseCode = ResponseCode.SYSTEM_ERROR
    retry: bool = False
    close: bool = False


class MalformedHeader(WireError):
    """The header of a frame is neither valid JSON nor valid binary. Close the connection, as RocketMQ does."""

    close = True


class MissingField(WireError):
    """A required header field is absent or cannot be read as its type. Answer code 1 with these words."""

    def __init__(self, field: str, words: str = "is missing or unreadable") -> None:
        super().__init__(f"header field {field} {words}")
        self.field = field


class MalformedRecord(WireError):
    """Bytes in a log or a pull reply are no whole, undamaged message record."""


class MalformedProperties(WireError):
    """Properties are not UTF-8, or a key or value to be written holds a separator."""

    code = ResponseCode.MESSAGE_ILLEGAL


class MalformedBatch(WireError):
    """The body of a send batch does not divide into messages. Nothing of it may be stored."""

    code = ResponseCode.MESSAGE_ILLEGAL


class MalformedBody(WireError):
    """A request or reply body is not the JSON, text or compressed form its code demands."""


class MalformedMessageId(WireError):
    """A text is not an offset message id: 32 (IPv4) or 56 (IPv6) hexadecimal characters."""


class IllegalName(WireError):
    """A topic or group name is empty, too long or holds a forbidden character. Say which rule."""

    code = ResponseCode.INVALID_PARAMETER


class MalformedExpression(WireError):
    """A subscription expression cannot be read."""

    code = ResponseCode.SUBSCRIPTION_PARSE_FAILED


class RefusedRequest(WireError):
    """What a handler raises to answer an error code, in words, with optional reply fields."""

    def __init__(self, code: ResponseCode, remark: str, fields: dict[str, str] | None = None) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
        self.fields = fields
        self.retry = code in RETRYABLE
