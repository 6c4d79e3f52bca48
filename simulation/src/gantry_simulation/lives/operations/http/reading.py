"""Pulls and queries over HTTP: what they deliver is compared with the ledger, as that of the remoting protocol is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from gantry_simulation.ledger.places import Place, Since
from gantry_simulation.lives.operations.doing import Doing, Operation, message_of, topic_of
from gantry_simulation.lives.operations.http.calls import (
    JSON,
    NOT_FOUND,
    call,
    is_expected,
    note_refusal,
    query,
)
from gantry_simulation.lives.operations.queries import compare_filtered, is_still, required
from gantry_simulation.lives.operations.sends import number_of, tag_of, unique_key
from gantry_simulation.lives.plan import Act

FOUND_MAX = 64


async def pull(doing: Doing, act: Act) -> None:
    """Read from somewhere in a queue."""
    await _pull(doing, act, act.number % 16)


async def pull_by_tag(doing: Doing, act: Act) -> None:
    """Pull messages with a tag."""
    tag = tag_of(act.number)
    await _pull_filtered(doing, act, {"filter": tag}, lambda message: tag_of(number_of(message)) == tag)


async def pull_by_property(doing: Doing, act: Act) -> None:
    """Pull messages with a condition in SQL92."""
    bound = act.number // 2
    await _pull_filtered(doing, act, {"sql": f"n > {bound}"}, lambda message: number_of(message) > bound)


async def _pull_filtered(doing: Doing, act: Act, condition: JSON, matches: Callable[[str], bool]) -> None:
    before = {place for place, _ in required(doing, act, plain=True)}
    pulled = await _pull(doing, act, 0, condition)
    if pulled is not None:
        found, end = pulled
        compare_filtered(doing, act, f"{condition} over HTTP", matches, before, found, range(end))


async def _pull(
    doing: Doing, act: Act, offset: int, condition: JSON | None = None
) -> tuple[dict[Place, str], int] | None:
    """Return what a pull delivers, and where the next one continues."""
    topic = topic_of(act)
    since = doing.ledger.since(act.on, topic)
    path = f"/v1/topics/{topic}/queues/{act.on}/{act.queue}/messages"
    answer = await call(doing, "GET", path + query(offset=offset, **(condition or {})))
    if not answer.is_success:
        note_refusal(doing, act, answer)
        return None
    shown = answer.json()
    found = {_place(one): _note(doing, one, since) for one in shown["messages"]}
    doing.history.add(
        doing.name, f"{act.kind} {act.on} {topic}/{act.queue} from {offset}: {len(found)} messages"
    )
    return found, shown["nextOffset"]


def _place(one: JSON) -> Place:
    return Place(one["broker"], one["topic"], one["queueId"], one["queueOffset"])


def _note(doing: Doing, one: JSON, since: Since) -> str:
    """Put a message into the ledger, unless it may be a copy of a dead letter: that is not shown."""
    message, place = message_of(one["body"].encode()), _place(one)
    if not doing.ledger.tasks.may_have_copies(message):
        store_ms = round(datetime.fromisoformat(one["storeTimestamp"]).timestamp() * 1000)
        doing.ledger.read(message, place, since, is_durable=doing.is_sync(place.store), store_ms=store_ms)
    return message


async def find_by_key(doing: Doing, act: Act) -> None:
    """Find a plain message by its key."""
    shown = required(doing, act, plain=True)
    if not shown:
        return
    place, message = shown[act.number % len(shown)]
    is_asked = await is_expected(doing, act.on, place.topic)
    since = doing.ledger.since(act.on, place.topic)
    answer = await call(doing, "GET", "/v1/messages" + query(topic=place.topic, key=message, max=FOUND_MAX))
    if not answer.is_success:
        note_refusal(doing, act, answer)
        return
    found = {_place(one): message_of(one["body"].encode()) for one in answer.json()["messages"]}
    doing.history.add(doing.name, f"finds {message} by its key: {', '.join(map(str, found))}")
    if set(found.values()) - {message}:
        doing.violate(f"a query over HTTP for {message} finds {found}")
    await _check(doing, place, message, since, is_found=place in found or not is_asked)


async def show(doing: Doing, act: Act) -> None:
    """Show a message by its unique id, then by its offset id, and its timeline."""
    shown = required(doing, act)
    if not shown:
        return
    place, message = shown[act.number % len(shown)]
    is_asked = await is_expected(doing, act.on, place.topic)
    since = doing.ledger.since(act.on, place.topic)
    key = doing.ledger.messages.unique_keys.get(message) or unique_key(message)
    found = await _show(doing, act, key + query(topic=place.topic), message)
    await _check(doing, place, message, since, is_found=found is not None or not is_asked)
    if not found:
        return
    again = await _show(doing, act, found["offsetMessageId"], message)
    await _check(doing, place, message, since, is_found=again is not None or not is_asked)
    answer = await call(doing, "GET", f"/v1/messages/{key}/timeline" + query(topic=place.topic))
    events = {one["event"] for one in answer.json()["events"]} if answer.is_success else None
    doing.history.add(doing.name, f"the timeline of {message} has {events}")
    is_there = is_still(doing, place, message) and doing.ledger.since(act.on, place.topic) == since
    if events is not None and is_there and not events & {"stored", "delivered", "committed"}:
        doing.violate(f"the timeline of {message} has {events}")


async def _show(doing: Doing, act: Act, path: str, message: str) -> JSON | None:
    """Return a message, None if there is none, and no fields if that is not known."""
    answer = await call(doing, "GET", f"/v1/messages/{path}")
    doing.history.add(doing.name, f"shows {message}: {answer.status}")
    if not answer.is_success:
        note_refusal(doing, act, answer)
        return None if answer.json()["code"] == NOT_FOUND else {}
    shown: JSON = answer.json()
    if message_of(shown["body"].encode()) != message:
        doing.violate(f"{message} is shown over HTTP as {shown}")
    return shown


async def _check(doing: Doing, place: Place, message: str, since: Since, *, is_found: bool) -> None:
    """Check that a message was found, unless its store has left and the gateway cannot know that it has some of the topic."""
    starts = doing.lives_of(place.store)
    if (
        is_found
        or not is_still(doing, place, message)
        or doing.ledger.since(place.store, place.topic) != since
    ):
        return
    if await is_expected(doing, place.store, place.topic) and doing.lives_of(place.store) == starts:
        doing.violate(f"a query over HTTP for {message} does not find it at {place}")


OPERATIONS: dict[str, Operation] = {
    "http pull": pull,
    "http pull by tag": pull_by_tag,
    "http pull by property": pull_by_property,
    "http find": find_by_key,
    "http show": show,
}
