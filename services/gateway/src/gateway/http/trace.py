"""W3C trace context: read from request headers, stored as message properties, returned in replies. Pure."""

import re

_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
_TRACESTATE_BYTES_MAX = 512


def trace_properties(headers: dict[bytes, bytes]) -> str:
    """Return traceparent and tracestate as encoded properties; "" without a valid traceparent.

    An invalid one is ignored, as the standard requires: a broken tracer must not stop a message.
    """
    traceparent = headers.get(b"traceparent")
    if traceparent is None or _TRACEPARENT.fullmatch(traceparent) is None or not traceparent.isascii():
        return ""
    text = f"traceparent\x01{traceparent.decode()}\x02"
    state = headers.get(b"tracestate", b"")
    if (
        0 < len(state) <= _TRACESTATE_BYTES_MAX
        and state.isascii()
        and b"\x01" not in state
        and b"\x02" not in state
    ):
        text += f"tracestate\x01{state.decode()}\x02"
    return text
