"""The script with which gateways limit rates, in Python. A fake without Lua knows this one script by its digest.

`gateway.stores.redis_limits` holds the script. When it changes, the contract test fails until this says the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

DIGEST = "bcc4e476cf11a76316d6de58cb9baab6bbaf7ad4"
"""SHA-1 of the script."""
MORE_MS = 1000
"""A bucket that is full again is kept this much longer."""


@dataclass(slots=True)
class Hash:
    """A key that holds fields."""

    fields: dict[bytes, bytes]
    expires_ms: int


def take(hashes: dict[bytes, Hash], keys: Sequence[bytes], arguments: Sequence[bytes], now_ms: int) -> int:
    """Take a cost from all buckets or from none; return the ms to wait. Arguments: the cost, then rate and burst of each."""
    cost = float(arguments[0])
    left: list[float] = []
    wait_ms = 0
    for number, key in enumerate(keys):
        rate, burst = float(arguments[2 * number + 1]), float(arguments[2 * number + 2])
        held = hashes[key].fields if key in hashes else {}
        tokens, at_ms = float(held.get(b"tokens", burst)), float(held.get(b"at", now_ms))
        tokens = min(burst, tokens + max(0, now_ms - at_ms) * rate / 1000)
        need = min(cost, burst)
        if tokens < need:
            wait_ms = max(wait_ms, math.ceil((need - tokens) * 1000 / rate))
        left.append(tokens)
    if wait_ms > 0:
        return wait_ms
    for number, key in enumerate(keys):
        rate, burst = float(arguments[2 * number + 1]), float(arguments[2 * number + 2])
        expires_ms = now_ms + math.ceil((burst + cost) * 1000 / rate) + MORE_MS
        fields = {b"tokens": _number(left[number] - cost), b"at": _number(now_ms)}
        hashes[key] = Hash(fields, expires_ms)
    return 0


def _number(value: float) -> bytes:
    """Return a number as a script passes it on: with 17 digits, without those that say nothing."""
    return b"%.17g" % value
