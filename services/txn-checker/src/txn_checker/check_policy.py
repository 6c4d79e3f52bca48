"""When a half is checked, how often, and when it is parked: RocketMQ's rules. Pure: `now` is an argument.

transactionTimeOut 6 s, transactionCheckInterval 30 s, transactionCheckMax 15, fileReservedTime 72 h. A half may
request a longer first wait with CHECK_IMMUNITY_TIME_IN_SECONDS.
"""

from typing import NamedTuple

from txn_checker.half_message import Event, Half


class Policy(NamedTuple):
    """Times in ms."""

    timeout_ms: int = 6_000
    interval_ms: int = 30_000
    checks_max: int = 15
    retention_ms: int = 72 * 3_600_000


def due_ms(policy: Policy, half: Half) -> int:
    """Return when a half is due: a fixed time after it was stored, then an interval after its newest check."""
    if half.checks:
        return half.stored_ms + policy.interval_ms
    return half.stored_ms + max(policy.timeout_ms, half.immunity_ms)


def due_event(policy: Policy, half: Half, now_ms: int) -> Event:
    """Return what a due half needs: a check, or the end of all checks."""
    is_too_old = now_ms - half.begun_ms > policy.retention_ms
    return Event.TOO_OLD if half.checks >= policy.checks_max or is_too_old else Event.CHECK_DUE
