"""The outputs of a decided half: its message, which waits again if it has a delay, and the op message. Pure."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from broker_store.commit.special_sends import DELAYS, TIMERS, level_of
from broker_store.config.delay_levels import DURATION_MS_MAX, LevelList
from broker_store.delays.instants import Now, due_ms
from gantry_wire.messages.properties import GANTRY_DELAY_MS, REAL_QUEUE_ID, REAL_TOPIC, TIMER_OUT_MS
from gantry_wire.names import OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from gantry_wire.private_requests.settling import SettleOutput
from gantry_wire.private_requests.transactions import BEGUN_PROPERTY
from gantry_wire.records.half_message import OP_PROPERTIES, ROLLBACK_OP_PROPERTIES, op_body

AUDIT_TOPIC = "GANTRY_SYS_AUDIT"
COMMITTED, ROLLED_BACK = "committed", "rolledBack"
CHECKED, PARKED, RESUMED = "checked", "parked", "resumed"
"""Outcomes of a half. Only the first two decide its transaction; after the others it continues elsewhere."""
_NOT_ORDINARY = frozenset({*DELAYS, BEGUN_PROPERTY})
"""Properties of a half whose message differs from what was sent."""
_QUEUE_DIGITS_MAX = 9


class DelayRules(NamedTuple):
    """What a requested delay means here."""

    levels: LevelList
    now: Callable[[], Now]


def op_output(offset: int, outcome: str = COMMITTED) -> SettleOutput:
    """Return the op message in RocketMQ's format: the half at this offset is finished."""
    named = ROLLBACK_OP_PROPERTIES if outcome == ROLLED_BACK else OP_PROPERTIES
    return SettleOutput(
        OP_HALF_TOPIC, 0, body=None, body_base64=op_body(offset), set=named, properties="none"
    )


def message_output(named: dict[str, str], rules: DelayRules) -> SettleOutput:
    """Return the message of a committed half, by its properties. Its delay, if any, begins now.

    The property bytes stay as stored, TRAN_MSG and REAL_TOPIC included, as in RocketMQ. The delay was
    checked when the half was sent, so neither a shorter horizon nor a cancellation whose instant has passed
    prevents the commit. Raises RefusedRequest for a delay that no horizon allows.
    """
    if _NOT_ORDINARY.isdisjoint(named):
        return _ordinary_output(named.get(REAL_TOPIC, ""), real_queue_id(named))
    drop = (BEGUN_PROPERTY,) if BEGUN_PROPERTY in named else ()
    if not DELAYS.isdisjoint(named):
        level = level_of(named)
        if level > 0:
            number = rules.levels.number(level)
            wait = {GANTRY_DELAY_MS: str(rules.levels.duration_ms(number))}
            return SettleOutput(
                SCHEDULE_TOPIC, number - 1, set=wait, drop=(*drop, *TIMERS), transaction="commit"
            )
        deliver_ms = due_ms(named, rules.now(), DURATION_MS_MAX, is_committed=True)
        if deliver_ms is not None:
            put = {TIMER_OUT_MS: str(deliver_ms)}
            return SettleOutput(TIMER_TOPIC, 0, set=put, drop=drop, transaction="commit")
    return SettleOutput(named.get(REAL_TOPIC, ""), real_queue_id(named), drop=drop, transaction="commit")


@lru_cache(maxsize=4096)
def _ordinary_output(topic: str, queue_id: int) -> SettleOutput:
    """Return the message of a half as sent. Outputs are immutable, so all halves of a queue share one."""
    return SettleOutput(topic, queue_id, transaction="commit")


def real_queue_id(named: dict[str, str]) -> int:
    """Return the queue a half was sent to, -1 (any) where it names none."""
    return _queue_id(named.get(REAL_QUEUE_ID, ""))


@lru_cache(maxsize=1024)
def _queue_id(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _QUEUE_DIGITS_MAX else -1
