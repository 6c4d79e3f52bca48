"""Converts a group's further settings to and from its attributes at the stores: the retry policy, the order and the start of receives. Pure."""

import re
from typing import NamedTuple

RETRY_POLICY = "gantry.retryPolicy"
ORDER = "gantry.receive.order"
START = "gantry.receive.start"

_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
MAX_MS_DEFAULT = 2 * 3_600_000


class RetryPolicy(NamedTuple):
    """Delays before each retry, in ms: a list whose last entry repeats, or (without a list) growing ones."""

    delays_ms: tuple[int, ...] = ()
    initial_ms: int = 0
    multiplier: float = 2.0
    max_ms: int = MAX_MS_DEFAULT
    jitter: float = 0.0

    def text(self) -> str:
        """Return the policy in the stores' format."""
        if self.delays_ms:
            return "list:" + ",".join(f"{delay}ms" for delay in self.delays_ms)
        return (
            f"exponential:initial={self.initial_ms}ms,multiplier={_number(self.multiplier)},"
            f"max={self.max_ms}ms,jitter={_number(self.jitter)}"
        )


def read_policy(text: str) -> RetryPolicy | None:
    """Parse a policy in the stores' format; None if there is none, or it is invalid."""
    kind, _, rest = text.strip().partition(":")
    try:
        if kind == "list":
            return RetryPolicy(tuple(_ms(part) for part in rest.split(",")))
        if kind != "exponential":
            return None
        values = {name: value for name, _, value in (part.partition("=") for part in rest.split(","))}
        return RetryPolicy(
            (),
            _ms(values["initial"]),
            float(values.get("multiplier", "2")),
            _ms(values.get("max", "2h")),
            float(values.get("jitter", "0")),
        )
    except (KeyError, ValueError):
        return None


def _ms(text: str) -> int:
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    return int(match[1]) * _UNIT_MS[match[2]]


def _number(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")
