"""Error codes of HTTP/2 (RFC 9113, 7), and what ends a connection or one stream."""

from enum import IntEnum


class ErrorCode(IntEnum):
    """As in RST_STREAM and GOAWAY."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class ConnectionFault(Exception):
    """The peer broke a rule of the connection: it gets GOAWAY, and the connection ends."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class StreamFault(Exception):
    """The peer broke a rule of one stream: it gets RST_STREAM, and the connection continues."""

    def __init__(self, stream: int, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.stream, self.code = stream, code
