"""Sends over HTTP: plain, with an idempotency key, in batches, delayed."""

from __future__ import annotations

from collections.abc import Sequence

from gantry_simulation.ledger.delays import Due
from gantry_simulation.ledger.places import Place
from gantry_simulation.lives.operations.delays import AT_ONCE_MS
from gantry_simulation.lives.operations.doing import Doing, Operation, topic_of
from gantry_simulation.lives.operations.http.calls import JSON, call, note_refusal, queue_of
from gantry_simulation.lives.operations.sends import BATCH, FSYNC, body_of, tag_of
from gantry_simulation.lives.plan import Act
from gantry_simulation.world.clocks import WALL_START_NS
from gantry_simulation.world.world import MS_NS

KEYED, DELAYED, PLAIN = "http send with key", "http send delayed", "http send"
KEYS = 2
"""Keys of delayed messages."""


async def _send(doing: Doing, act: Act, messages: Sequence[tuple[str, JSON]]) -> list[JSON]:
    """Send messages by their names, and return the results of those that were stored, with the key `name`."""
    ledger, topic = doing.ledger, topic_of(act)
    ledger.messages.sent.update(name for name, _ in messages)
    size = act.size // len(messages)
    bodies = [{"body": body_of(name, size).decode(), **fields} for name, fields in messages]
    answer = await call(doing, "POST", f"/v1/topics/{topic}/messages", {"messages": bodies})
    if not answer.is_success:
        note_refusal(doing, act, answer)
        return []
    results = zip(messages, answer.json()["results"], strict=True)
    return [result | {"name": name} for (name, _), result in results if result.get("status") == "SEND_OK"]


async def _send_stored(doing: Doing, act: Act, messages: Sequence[tuple[str, JSON]]) -> None:
    """Send messages that are stored at once."""
    ledger, topic = doing.ledger, topic_of(act)
    since = {store: ledger.since(store, topic) for store in doing.stores()}
    for result in await _send(doing, act, messages):
        place = Place(result["broker"], topic, result["queueId"], result["queueOffset"])
        doing.history.add(doing.name, f"{result['name']} is stored at {place}: {result['durability']}")
        ledger.messages.unique_keys[result["name"]] = result["messageId"]
        is_durable = result["durability"] == FSYNC
        ledger.messages.stored(result["name"], place, since[place.store], is_durable=is_durable)


async def send(doing: Doing, act: Act) -> None:
    """Send a message to a queue, or to any."""
    message = f"h{act.number}"
    found_by = {"tag": tag_of(act.number), "keys": [message], "properties": {"n": str(act.number)}}
    await _send_stored(doing, act, [(message, found_by | (queue_of(act) if act.number % 2 else {}))])


async def send_with_key(doing: Doing, act: Act) -> None:
    """Send a message with an idempotency key, which chooses its queue. The same number is the same key and the same content."""
    message = f"hk{act.number}"
    doing.ledger.messages.key_of[message] = message
    await _send_stored(doing, act, [(message, {"idempotencyKey": message})])


async def send_batch(doing: Doing, act: Act) -> None:
    """Send messages with one call."""
    await _send_stored(doing, act, [(f"hb{act.number}.{number}", queue_of(act)) for number in range(BATCH)])


def key_of(number: int) -> str:
    """Return the key of the delayed message with this number: tasks select messages by it."""
    return f"key{number % KEYS}"


async def send_delayed(doing: Doing, act: Act) -> None:
    """Send a message for an instant, `span_ms` from now by an exact clock."""
    message, topic, ledger, now_ns = f"hd{act.number}", topic_of(act), doing.ledger, doing.now_ns()
    due = Due(now_ns, instant_ms=(WALL_START_NS + now_ns) // MS_NS + act.span_ms)
    key = key_of(act.number)
    ledger.delays.begin(message, act.on, topic, due, is_at_once=act.span_ms < AT_ONCE_MS, key=key)
    ledger.tasks.sending(message)
    since = ledger.since(act.on, topic)
    fields = queue_of(act) | {"deliverAt": due.instant_ms, "keys": [key]}
    for result in await _send(doing, act, [(message, fields)]):
        ledger.messages.unique_keys[message] = result["messageId"]
        doing.history.add(doing.name, f"{message} waits on {act.on}: {due}, {result['durability']}")
        ledger.messages.acknowledged += 1
        if result["durability"] == FSYNC and ledger.losses.still_holds(act.on, topic, since):
            ledger.delays.acknowledged(message)


SENDS: dict[str, Operation] = {
    PLAIN: send,
    KEYED: send_with_key,
    "http send batch": send_batch,
    DELAYED: send_delayed,
}
