"""Orders about delayed messages over HTTP: cancelled, moved, delivered now; lists of those that wait."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from gantry_simulation.clients.http_client import Answer
from gantry_simulation.ledger.delays import Due, Gone
from gantry_simulation.ledger.places import Since
from gantry_simulation.lives.operations.delays import can_tell, instant_of
from gantry_simulation.lives.operations.doing import Doing, Operation, topic_of
from gantry_simulation.lives.operations.http.calls import (
    NOT_FOUND,
    call,
    expected_stores,
    is_expected,
    note_refusal,
    query,
)
from gantry_simulation.lives.operations.sends import unique_key
from gantry_simulation.lives.plan import Act

QUEUES = 4
"""Queues of a topic in lives with gateways."""
LISTED_MAX = 1000
GONE, UNKNOWN = 409, 404
"""Answers about a message that no longer waits, and about one that no scheduler knows, or whose broker no gateway knows."""


def _message(doing: Doing, act: Act) -> str | None:
    """Return the message with the number of an act, None if it was not sent."""
    message = f"hd{act.number}"
    return message if message in doing.ledger.messages.unique_keys else None


def _path(doing: Doing, message: str) -> str:
    return f"/v1/schedules/{doing.ledger.messages.unique_keys[message]}"


def _restriction(act: Act) -> str:
    return query(broker=act.on) if act.number % 2 else ""


def _is_known(doing: Doing, message: str, store: str) -> bool:
    """Whether a scheduler must know the message."""
    return doing.ledger.delays.is_known(message) and not doing.ledger.losses.is_doubtful(store)


class _Before(NamedTuple):
    """The state when an order of a message began."""

    since: Since
    starts: int
    """Of its store."""
    is_known: bool
    """Whether a scheduler must know the message, and the gateway expects its store."""


async def _before(doing: Doing, act: Act, message: str) -> _Before:
    topic = topic_of(act)
    is_asked = await is_expected(doing, act.on, topic)
    since = doing.ledger.since(act.on, topic)
    return _Before(since, doing.lives_of(act.on), is_asked and _is_known(doing, message, act.on))


async def _check_unknown(doing: Doing, act: Act, message: str, before: _Before, answer: Answer) -> None:
    """Check that an answer of no message is right. A gateway that does not expect the store did not ask for it there."""
    if answer.status != UNKNOWN or answer.json()["code"] != NOT_FOUND or not before.is_known:
        return
    topic = topic_of(act)
    if (
        await is_expected(doing, act.on, topic)
        and doing.lives_of(act.on) == before.starts
        and doing.ledger.losses.still_holds(act.on, topic, before.since)
        and can_tell(doing, message, act.on)
    ):
        doing.ledger.delays.not_found(message)


async def cancel(doing: Doing, act: Act) -> None:
    """Cancel the delayed message with the number of this act."""
    message, topic, delays = _message(doing, act), topic_of(act), doing.ledger.delays
    if message is None:
        return
    delays.may_be_cancelled(message)
    before = await _before(doing, act, message)
    answer = await call(doing, "DELETE", _path(doing, message) + _restriction(act))
    doing.history.add(doing.name, f"cancels {message}: {answer.status}")
    if answer.status in (GONE, UNKNOWN):
        delays.not_cancelled(message)
    elif (
        answer.is_success
        and doing.ledger.losses.still_holds(act.on, topic, before.since)
        and can_tell(doing, message, act.on, cancellations=1)
    ):
        delays.cancelled(message)
    await _check_unknown(doing, act, message, before, answer)


async def move(doing: Doing, act: Act) -> None:
    """Move the delayed message with the number of this act to an instant, `span_ms` from now."""
    due = instant_of(doing, act)
    await _move(doing, act, due, "PATCH", "", {"deliverAt": due.instant_ms})


async def deliver_now(doing: Doing, act: Act) -> None:
    """Deliver the delayed message with the number of this act at once."""
    await _move(doing, act, Due(doing.now_ns()), "POST", ":deliverNow", None)


async def _move(doing: Doing, act: Act, due: Due, method: str, verb: str, body: object) -> None:
    """Gateways repeat an order, so one that is answered as too late may have moved the message before."""
    message, topic, delays = _message(doing, act), topic_of(act), doing.ledger.delays
    if message is None:
        return
    delays.may_be_moved(message, due)
    before = await _before(doing, act, message)
    answer = await call(doing, method, _path(doing, message) + verb + _restriction(act), body)
    doing.history.add(doing.name, f"moves {message} to {due}: {answer.status}")
    if answer.is_success and doing.ledger.losses.still_holds(act.on, topic, before.since):
        delays.moved(message, due)
    await _check_unknown(doing, act, message, before, answer)


async def ends_of(doing: Doing, store: str, topic: str) -> dict[int, int]:
    """Return where the queues of a topic end. Raises LinkError, BrokerRefused."""
    return {queue: await doing.store(store).max_offset(topic, queue) for queue in range(QUEUES)}


async def note_gone(
    doing: Doing, store: str, topic: str, since: Since, messages: Iterable[str], why: str
) -> None:
    """Put into the ledger that messages for a topic no longer wait. Raises LinkError, BrokerRefused."""
    ends = await ends_of(doing, store, topic)
    if doing.ledger.losses.still_holds(store, topic, since):
        for message in messages:
            doing.ledger.delays.gone(message, Gone(ends, why))


async def list_waiting(doing: Doing, act: Act) -> None:
    """List what waits for a topic."""
    await listed(doing, act, topic_of(act))


async def listed(doing: Doing, act: Act, topic: str, key: str | None = None) -> dict[str, int] | None:
    """List what waits for a topic, perhaps with a key; return when each message is due, ms since 1970. None without an answer.

    A message that is not listed, although its store knew it, no longer waits.
    """
    delays, losses = doing.ledger.delays, doing.ledger.losses
    expected = await expected_stores(doing)
    since = {store: doing.ledger.since(store, topic) for store in doing.stores()}
    ended = {
        message for message, each in delays.delayed.items() if each.is_cancelled or each.gone is not None
    }
    before = {
        message: delayed.orders
        for message, delayed in delays.delayed.items()
        if delayed.topic == topic
        and key in (None, delayed.key)
        and _is_known(doing, message, delayed.store)
        and not delayed.perhaps_due
    }
    answer = await call(doing, "GET", "/v1/schedules" + query(topic=topic, key=key, max=LISTED_MAX))
    if not answer.is_success:
        note_refusal(doing, act, answer)
        return None
    page = answer.json()
    ids = {one["messageId"]: _instant_ms(one["deliverAt"]) for one in page["schedules"]}
    keys = doing.ledger.messages.unique_keys
    found = {
        message: ids[name]
        for message in delays.delayed
        if (name := keys.get(message) or unique_key(message)) in ids
    }
    doing.history.add(doing.name, f"lists {topic} {key or ''}: {', '.join(found)}, without {page['missing']}")
    for message in found:
        store = delays.delayed[message].store
        if message in ended and losses.still_holds(store, topic, since[store]):
            doing.violate(f"{message} is listed, although it no longer waits")
    for store in sorted(expected - set(page["missing"])):
        absent = [
            message
            for message, orders in before.items()
            if (delayed := delays.delayed[message]).store == store
            and message not in found
            and delayed.orders == orders
        ]
        if absent:
            await note_gone(doing, store, topic, since[store], absent, "a list did not have it before")
    return found


def _instant_ms(text: str) -> int:
    """Return a time of an answer in ms since 1970."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


async def list_parked(doing: Doing, act: Act) -> None:
    """List parked messages, and try to deliver each. Messages are parked after days, so there are none."""
    answer = await call(doing, "GET", f"/v1/parked{_restriction(act)}")
    if not answer.is_success:
        note_refusal(doing, act, answer)
    elif answer.json()["schedules"]:
        doing.violate(f"messages are parked: {answer.json()['schedules']}")


CANCEL, MOVE, NOW = "http cancel", "http move", "http deliver now"
ORDERS: dict[str, Operation] = {CANCEL: cancel, MOVE: move, NOW: deliver_now}
LISTS: dict[str, Operation] = {"http list": list_waiting, "http list parked": list_parked}
