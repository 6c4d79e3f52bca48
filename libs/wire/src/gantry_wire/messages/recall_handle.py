"""Recall handles in RocketMQ 5's format: URL-safe Base64 of `v1 topic broker deliverMs uniqueKey`. Pure."""

import binascii
from base64 import b64decode, urlsafe_b64encode
from typing import NamedTuple

from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest

_VERSION = "v1"
_PARTS = 5
HANDLE_CHARS_MAX = 1024


class RecallHandle(NamedTuple):
    """Identifies one timed message."""

    topic: str
    broker: str
    deliver_ms: int
    unique_key: str

    def text(self) -> str:
        """Return the handle in the client's form."""
        text = f"{_VERSION} {self.topic} {self.broker} {self.deliver_ms} {self.unique_key}"
        return urlsafe_b64encode(text.encode()).decode()


def parse_handle(text: str) -> RecallHandle:
    """Parse a handle.

    Padding may be missing. Raises ILLEGAL_OPERATION. A time that is not a number is -1, as in RocketMQ.
    """
    try:
        padded = text + "=" * (-len(text) % 4)
        text = b64decode(padded.encode("ascii"), altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        text = ""
    parts = text.split(" ")
    if len(text) > HANDLE_CHARS_MAX or len(parts) < _PARTS or parts[0] != _VERSION or not all(parts[:_PARTS]):
        raise RefusedRequest(ResponseCode.ILLEGAL_OPERATION, "recall handle is invalid")
    _, topic, broker, deliver, unique_key = parts[:_PARTS]
    is_number = deliver.isascii() and deliver.isdigit() and len(deliver) < 19
    return RecallHandle(topic, broker, int(deliver) if is_number else -1, unique_key)
