"""How Gantry's own services prove themselves over HTTP: a header with a time, and an HMAC over it and the one request that it is for.

A reader of the header can repeat that request for half a minute, and send no other one.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence

SCHEME = b"Gantry"
FRESH_MS = 30_000
"""How old or how far ahead the time in a header may be."""
_DIGITS_MAX = 16
_PURPOSE = b"gantry http 1\n"


class InnerHttp:
    """Makes and checks the header `Authorization` of inner requests."""

    def __init__(self, inner: Sequence[bytes], now_ms: Callable[[], int]) -> None:
        """`inner`: the secrets of ClusterKeys, the current one first. `now_ms` is wall time."""
        self._inner, self._now_ms = tuple(inner), now_ms

    def header(self, request: str) -> bytes:
        """Return the header for a request (method and path template)."""
        time_ms = str(self._now_ms()).encode()
        return SCHEME + b" " + time_ms + b"." + _proof(self._inner[0], time_ms, request)

    def is_proof(self, header: bytes, request: str) -> bool:
        """Whether one of our services made a header for a request, just now."""
        scheme, _, content = header.partition(b" ")
        if scheme != SCHEME:
            return False
        time_ms, _, proof = content.partition(b".")
        if not (time_ms.isdigit() and len(time_ms) <= _DIGITS_MAX):
            return False
        is_ours = False
        for secret in self._inner:
            is_ours |= hmac.compare_digest(_proof(secret, time_ms, request), proof)
        return is_ours and abs(self._now_ms() - int(time_ms)) <= FRESH_MS


def _proof(secret: bytes, time_ms: bytes, request: str) -> bytes:
    return (
        hmac.new(secret, _PURPOSE + time_ms + b"\n" + request.encode(), hashlib.sha256).hexdigest().encode()
    )
