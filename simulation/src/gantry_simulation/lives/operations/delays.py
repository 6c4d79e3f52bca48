"""Delayed messages: sent by level or for an instant, moved, cancelled."""

from __future__ import annotations

from gantry_link.clients.scheduler import SchedulerClient
from gantry_link.system_queues.claims import claim_holder
from gantry_simulation.ledger.delays import Due
from gantry_simulation.lives.operations.doing import ANSWER_SECONDS, Doing, Operation, body_of, topic_of
from gantry_simulation.lives.operations.sends import send_header, unique, unique_key
from gantry_simulation.lives.plan import Act
from gantry_simulation.world.clocks import WALL_START_NS
from gantry_simulation.world.world import MS_NS
from gantry_wire.messages.properties import DELAY, TIMER_DELIVER_MS
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.private_requests.scheduling import MoveSchedule, ScheduleOrder

LEVEL_SECONDS = (1, 3, 6)
LEVELS = " ".join(f"{seconds}s" for seconds in LEVEL_SECONDS)
"""The stores' setting."""
AT_ONCE_MS = 4_000
"""An instant as near as this may have passed when the message reaches the store, which then stores it as a plain one."""
WITHOUT_EFFECT = ("alreadyDelivered", "unknown")
"""Answers to an order that changed nothing."""


async def send_by_level(doing: Doing, act: Act) -> None:
    """Send a message that waits out a level."""
    level = act.number % len(LEVEL_SECONDS)
    due = Due(doing.now_ns(), wait_seconds=LEVEL_SECONDS[level])
    await _send(doing, act, due, f"{DELAY}\x01{level + 1}\x02")


async def send_for_instant(doing: Doing, act: Act) -> None:
    """Send a message for an instant, `span_ms` from now by an exact clock."""
    due = instant_of(doing, act)
    await _send(doing, act, due, f"{TIMER_DELIVER_MS}\x01{due.instant_ms}\x02")


def instant_of(doing: Doing, act: Act) -> Due:
    """Return the instant `span_ms` from now by an exact clock."""
    now_ns = doing.now_ns()
    return Due(now_ns, instant_ms=(WALL_START_NS + now_ns) // MS_NS + act.span_ms)


def _message(act: Act) -> str:
    return f"d{act.number}"


async def _send(doing: Doing, act: Act, due: Due, properties: str) -> None:
    message, topic, ledger = _message(act), topic_of(act), doing.ledger
    ledger.messages.sent.add(message)
    ledger.delays.begin(
        message, act.on, topic, due, is_at_once=bool(due.instant_ms) and act.span_ms < AT_ONCE_MS
    )
    since = ledger.since(act.on, topic)
    header = send_header(doing, act, unique(message) + properties)
    stored = await doing.store(act.on).send(header, body_of(message, act.size))
    doing.history.add(doing.name, f"{message} waits on {act.on}: {due}, code {stored.code}")
    ledger.messages.acknowledged += 1
    if stored.code == 0 and ledger.losses.still_holds(act.on, topic, since):
        ledger.delays.acknowledged(message)


async def _scheduler(doing: Doing, act: Act) -> SchedulerClient | None:
    """Return a client of the scheduler that works for a store, None while there is none."""
    store = doing.store(act.on)
    holder = await claim_holder(store, SCHEDULE_TOPIC, 0)
    return None if holder is None else SchedulerClient(store.pool, holder.address, ANSWER_SECONDS)


def _is_known(doing: Doing, act: Act) -> bool:
    """Whether a scheduler must know the message. A store that answers before its flush shows it to nobody until then."""
    return doing.ledger.delays.is_known(_message(act)) and not doing.ledger.losses.is_doubtful(act.on)


def can_tell(doing: Doing, message: str, store: str, *, cancellations: int = 0) -> bool:
    """Whether the answer to an order is certain, although there are these cancellations.

    About a message that does not wait, a scheduler asks its store by key. One that does not find it there was cancelled, or
    is unknown.
    """
    is_found = store not in doing.ledger.messages.doubtful
    return is_found or not doing.ledger.delays.may_have_ended(message, cancellations=cancellations)


async def cancel(doing: Doing, act: Act) -> None:
    """Cancel the delayed message with the number of this act."""
    message, topic, delays = _message(act), topic_of(act), doing.ledger.delays
    scheduler = await _scheduler(doing, act)
    if scheduler is None or message not in delays.delayed:
        return
    delays.may_be_cancelled(message)
    since, is_known = doing.ledger.since(act.on, topic), _is_known(doing, act)
    order = ScheduleOrder(id=unique_key(message), broker=act.on)
    status = (await scheduler.cancel(order)).status
    doing.history.add(doing.name, f"cancels {message}: {status}")
    if status in WITHOUT_EFFECT:
        delays.not_cancelled(message)
    if doing.ledger.losses.still_holds(act.on, topic, since):
        if status == "cancelled" and can_tell(doing, message, act.on, cancellations=1):
            delays.cancelled(message)
        elif status == "unknown" and is_known and can_tell(doing, message, act.on):
            delays.not_found(message)


async def move(doing: Doing, act: Act) -> None:
    """Move the delayed message with the number of this act to an instant, `span_ms` from now."""
    message, topic, delays = _message(act), topic_of(act), doing.ledger.delays
    scheduler = await _scheduler(doing, act)
    if scheduler is None or message not in delays.delayed:
        return
    due = instant_of(doing, act)
    delays.may_be_moved(message, due)
    since, is_known = doing.ledger.since(act.on, topic), _is_known(doing, act)
    order = MoveSchedule(id=unique_key(message), broker=act.on, deliver_at_ms=due.instant_ms)
    status = (await scheduler.move(order)).status
    doing.history.add(doing.name, f"moves {message} to {due}: {status}")
    if status in WITHOUT_EFFECT:
        delays.not_moved(message, due)
    if doing.ledger.losses.still_holds(act.on, topic, since):
        if status == "moved":
            delays.moved(message, due)
        elif status == "unknown" and is_known and can_tell(doing, message, act.on):
            delays.not_found(message)


SENDS: dict[str, Operation] = {"send by level": send_by_level, "send for instant": send_for_instant}
ORDERS: dict[str, Operation] = {"cancel": cancel, "move": move}
