"""How long a failed message waits before its group gets it again: RocketMQ's levels, or the group's own policy. Pure.

The policy is the group's attribute `gantry.retryPolicy`:

    list:1s,5s,30s                                              the waits in order; the last one repeats
    exponential:initial=1s,multiplier=2,max=1h,jitter=0.2       grows up to `max`; each varies by up to a fifth either way

The group's `retryMaxTimes` limits the number of tries.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

RETRY_ATTRIBUTE = "gantry.retryPolicy"
FIRST_LEVEL = 3
"""Level of the first retry. Each further one is a level higher."""
LIST_MAX = 64
WAIT_MS_MAX = 40 * 86_400_000
MULTIPLIER_MAX = 100.0
_DOUBLINGS_MAX = 150
"""Most applications of the multiplier. More cannot change the result, and a float can hold it."""

_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
_NUMBER = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")
_KEYS = ("initial", "multiplier", "max", "jitter")


class IllegalPolicy(ValueError):
    """A policy cannot be parsed. The message says what to write."""


class RetryPolicy(NamedTuple):
    """A list of waits in ms, or exponential ones if it is empty."""

    waits_ms: tuple[int, ...] = ()
    initial_ms: int = 0
    multiplier: float = 2.0
    max_ms: int = 0
    jitter: float = 0.0

    def wait_ms(self, reconsume_times: int, random: Callable[[], float]) -> int:
        """Return how long a message waits after this many earlier failures. `random` returns numbers from 0 to 1."""
        times = max(reconsume_times, 0)
        if self.waits_ms:
            return self.waits_ms[min(times, len(self.waits_ms) - 1)]
        grown_ms = min(self.initial_ms * self.multiplier ** min(times, _DOUBLINGS_MAX), self.max_ms)
        if self.jitter:
            grown_ms *= 1 + self.jitter * (2 * random() - 1)
        return min(round(grown_ms), self.max_ms)


def policy_of(attributes: Mapping[str, str]) -> RetryPolicy | None:
    """Return a group's own policy, None for RocketMQ's levels. An invalid one (from a foreign file) counts as none."""
    text = attributes.get(RETRY_ATTRIBUTE)
    if not text:
        return None
    try:
        return parse_policy(text)
    except IllegalPolicy:
        return None


@lru_cache(maxsize=1024)
def parse_policy(text: str) -> RetryPolicy:
    """Parse a policy. Raises IllegalPolicy."""
    kind, colon, rest = text.strip().partition(":")
    if not colon or kind not in {"list", "exponential"}:
        raise IllegalPolicy(
            f"{text[:64]!r}: write list:1s,5s or exponential:initial=1s,multiplier=2,max=1h,jitter=0.2"
        )
    if kind == "list":
        waits = rest.split(",")
        if len(waits) > LIST_MAX:
            raise IllegalPolicy(f"a list has at most {LIST_MAX} waits, this one has {len(waits)}")
        return RetryPolicy(tuple(_duration_ms(wait) for wait in waits))
    return _exponential(rest)


def _exponential(rest: str) -> RetryPolicy:
    values: dict[str, str] = {}
    for part in rest.split(","):
        name, _, value = part.partition("=")
        values[name.strip()] = value.strip()
    unknown = sorted(set(values) - set(_KEYS))
    if unknown:
        raise IllegalPolicy(f"{unknown[0][:32]!r} is none of {', '.join(_KEYS)}")
    if "initial" not in values:
        raise IllegalPolicy("an exponential policy needs initial=, the wait after the first failure")
    initial_ms = _duration_ms(values["initial"])
    max_ms = _duration_ms(values.get("max", "2h"))
    multiplier = _number("multiplier", values.get("multiplier", "2"), 1.0, MULTIPLIER_MAX)
    jitter = _number("jitter", values.get("jitter", "0"), 0.0, 1.0)
    if max_ms < initial_ms:
        raise IllegalPolicy(f"max ({max_ms} ms) is less than initial ({initial_ms} ms)")
    return RetryPolicy((), initial_ms, multiplier, max_ms, jitter)


def _duration_ms(text: str) -> int:
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise IllegalPolicy(f"{text[:32]!r} is no duration: write a whole number and ms, s, m, h or d")
    duration_ms = int(match[1]) * _UNIT_MS[match[2]]
    if duration_ms > WAIT_MS_MAX:
        raise IllegalPolicy(f"{text[:32]!r} is more than 40 days")
    return duration_ms


def _number(name: str, text: str, low: float, high: float) -> float:
    if not _NUMBER.fullmatch(text) or not low <= float(text) <= high:
        raise IllegalPolicy(f"{name} must be a number from {low:g} to {high:g}, it is {text[:32]!r}")
    return float(text)
