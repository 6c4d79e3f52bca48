"""What clients do over HTTP: sends, leases, and transactions, each call without a retry."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from gantry_simulation.clients.http_client import Answer
from gantry_simulation.ledger.delays import Due
from gantry_simulation.ledger.leases import Sight
from gantry_simulation.ledger.places import Place
from gantry_simulation.ledger.transactions import COMMIT, ROLLBACK
from gantry_simulation.lives.operations.delays import AT_ONCE_MS
from gantry_simulation.lives.operations.doing import Doing, Operation, message_of, topic_of
from gantry_simulation.lives.operations.sends import BATCH, FSYNC, body_of
from gantry_simulation.lives.plan import Act
from gantry_simulation.world.clocks import WALL_START_NS
from gantry_simulation.world.world import MS_NS

GROUP = "HG"
PRODUCER_GROUP = "http-producers"
CALL_SECONDS = 12.0
"""Longer than any call may take: the gateways' time-out for each part that they ask, and the longest wait."""
INVISIBLE_SECONDS = (1, 2, 4)
WAIT_SECONDS = (0, 0, 1, 3)
NACK_SECONDS = (0.0, 0.5, 2.0)
RECEIVED_MAX = 8
KEYED = "http send with key"
JSON = dict[str, Any]


async def _call(doing: Doing, method: str, path: str, body: object = None) -> Answer:
    return await doing.http().call(method, path, body, seconds=CALL_SECONDS)


def _refused(doing: Doing, act: Act, answer: Answer) -> None:
    doing.history.add(doing.name, f"{act.kind} {act.number}: {answer.status} {answer.body[:200].decode()}")


# Sends


async def _send(doing: Doing, act: Act, messages: Sequence[tuple[str, JSON]]) -> list[JSON]:
    """Send messages by their names, and return the results of those that were stored, with the key `name`."""
    ledger, topic = doing.ledger, topic_of(act)
    ledger.messages.sent.update(name for name, _ in messages)
    size = act.size // len(messages)
    bodies = [{"body": body_of(name, size).decode(), **fields} for name, fields in messages]
    answer = await _call(doing, "POST", f"/v1/topics/{topic}/messages", {"messages": bodies})
    if not answer.is_success:
        _refused(doing, act, answer)
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


def _queue(act: Act) -> JSON:
    return {"broker": act.on, "queueId": act.queue}


async def send(doing: Doing, act: Act) -> None:
    """Send a message to a queue, or to any."""
    await _send_stored(doing, act, [(f"h{act.number}", _queue(act) if act.number % 2 else {})])


async def send_with_key(doing: Doing, act: Act) -> None:
    """Send a message with an idempotency key, which chooses its queue. The same number is the same key and the same content."""
    message = f"hk{act.number}"
    doing.ledger.messages.key_of[message] = message
    await _send_stored(doing, act, [(message, {"idempotencyKey": message})])


async def send_batch(doing: Doing, act: Act) -> None:
    """Send messages with one call."""
    await _send_stored(doing, act, [(f"hb{act.number}.{number}", _queue(act)) for number in range(BATCH)])


async def send_delayed(doing: Doing, act: Act) -> None:
    """Send a message for an instant, `span_ms` from now by an exact clock."""
    message, topic, ledger, now_ns = f"hd{act.number}", topic_of(act), doing.ledger, doing.now_ns()
    due = Due(now_ns, instant_ms=(WALL_START_NS + now_ns) // MS_NS + act.span_ms)
    ledger.delays.begin(message, act.on, topic, due, is_at_once=act.span_ms < AT_ONCE_MS)
    since = ledger.since(act.on, topic)
    for result in await _send(doing, act, [(message, _queue(act) | {"deliverAt": due.instant_ms})]):
        doing.history.add(doing.name, f"{message} waits on {act.on}: {due}, {result['durability']}")
        ledger.messages.acknowledged += 1
        if result["durability"] == FSYNC and ledger.losses.still_holds(act.on, topic, since):
            ledger.delays.acknowledged(message)


# Leases


class Handle(NamedTuple):
    """A received message."""

    sight: Sight
    receipt: str
    seen_ns: int

    @property
    def message(self) -> str:
        """Its name."""
        return self.sight.message


async def receive(doing: Doing, act: Act, seconds: int, wait: int, most: int = RECEIVED_MAX) -> list[Handle]:
    """Receive messages for these seconds."""
    topic, ledger, began_ns = topic_of(act), doing.ledger, doing.now_ns()
    since = {store: ledger.since(store, topic) for store in doing.stores()}
    lives = {store: doing.lives_of(store) for store in since}
    body = {"maxMessages": most, "waitSeconds": wait, "invisibleSeconds": seconds}
    answer = await _call(doing, "POST", f"/v1/topics/{topic}/groups/{GROUP}/messages:receive", body)
    if not answer.is_success:
        _refused(doing, act, answer)
        return []
    handles: list[Handle] = []
    for one in answer.json()["messages"]:
        message = message_of(one["body"].encode())
        place = Place(one["broker"], one["topic"], one["queueId"], one["queueOffset"])
        if message not in ledger.messages.sent:
            doing.violate(f"{place} delivers {message!r}, which nobody sent")
        if ledger.losses.still_holds(place.store, topic, since[place.store]):
            life = lives[place.store] if lives[place.store] == doing.lives_of(place.store) else None
            ledger.leases.received(Sight(place, message), began_ns, seconds, life)
            handles.append(Handle(Sight(place, message), one["receiptHandle"], doing.now_ns()))
    doing.history.add(doing.name, f"receives for {seconds} s: {', '.join(each.message for each in handles)}")
    return handles


async def settle(
    doing: Doing, act: Act, handles: Sequence[Handle], verb: str, body: JSON, late: Collection[str] = ()
) -> None:
    """Acknowledge, give back or extend; put what is confirmed into the ledger. `late`: receipts whose lease another one replaced."""
    topic, ledger, began_ns = topic_of(act), doing.ledger, doing.now_ns()
    since = {each.sight.place.store: ledger.since(each.sight.place.store, topic) for each in handles}
    lives = {store: doing.lives_of(store) for store in since}
    answer = await _call(doing, "POST", f"/v1/topics/{topic}/groups/{GROUP}/messages:{verb}", body)
    if not answer.is_success:
        _refused(doing, act, answer)
        return
    statuses = [one.get("status", one.get("code")) for one in answer.json()["results"]]
    doing.history.add(doing.name, f"{verb} of {', '.join(each.message for each in handles)}: {statuses}")
    for handle, status in zip(handles, statuses, strict=True):
        store = handle.sight.place.store
        if not ledger.losses.still_holds(store, topic, since[store]):
            continue
        if status == "acked":
            is_late = handle.receipt in late and lives[store] == doing.lives_of(store)
            ledger.leases.acked(handle.sight, handle.seen_ns, is_late=is_late)
        elif status in ("nacked", "extended"):
            ledger.leases.held(handle.sight, began_ns, _held_seconds(act, status), lives[store])


def _held_seconds(act: Act, status: str) -> float:
    return NACK_SECONDS[act.number % 3] if status == "nacked" else _seconds(act)


def _seconds(act: Act) -> int:
    return INVISIBLE_SECONDS[act.number % 3]


async def _receive(doing: Doing, act: Act) -> list[Handle]:
    """Receive, and keep the messages for a while: sometimes beyond the end of their lease."""
    handles = await receive(doing, act, _seconds(act), WAIT_SECONDS[act.number % 4])
    if handles:
        await asyncio.sleep(act.span_ms / 1000)
    return handles


def receipts(handles: Sequence[Handle]) -> list[JSON]:
    """Return handles as a call takes them."""
    return [{"receiptHandle": each.receipt} for each in handles]


async def receive_only(doing: Doing, act: Act) -> None:
    """Receive, and let the leases end."""
    await _receive(doing, act)


async def receive_and_ack(doing: Doing, act: Act) -> None:
    """Receive and acknowledge."""
    handles = await _receive(doing, act)
    if handles:
        await acknowledge(doing, act, handles)


async def acknowledge(doing: Doing, act: Act, handles: Sequence[Handle]) -> None:
    """Acknowledge messages."""
    leases = doing.ledger.leases
    lives = {store: doing.lives_of(store) for store in doing.stores()}
    late = {
        handle.receipt
        for handle in handles
        if leases.acking(handle.sight, handle.seen_ns, lives[handle.sight.place.store])
    }
    await settle(doing, act, handles, "ack", {"acks": receipts(handles)}, late)


async def receive_and_nack(doing: Doing, act: Act) -> None:
    """Receive, and give back for a while."""
    handles = await _receive(doing, act)
    if handles:
        for handle in handles:
            doing.ledger.leases.freed(handle.sight)
        more = {"delaySeconds": NACK_SECONDS[act.number % 3], "reason": "the seed"}
        await settle(doing, act, handles, "ack", {"nacks": [one | more for one in receipts(handles)]})


async def receive_and_extend(doing: Doing, act: Act) -> None:
    """Receive, and make the leases longer once."""
    handles = await _receive(doing, act)
    if handles:
        for handle in handles:
            doing.ledger.leases.freed(handle.sight)
        body = {"extends": receipts(handles), "invisibleSeconds": _seconds(act)}
        await settle(doing, act, handles, "extend", body)


# Transactions


async def transaction(doing: Doing, act: Act) -> None:
    """Begin a transaction and decide it."""
    message, topic, ledger = f"ht{act.number}", topic_of(act), doing.ledger
    decision = ROLLBACK if act.number % 3 == 0 else COMMIT
    ledger.messages.sent.add(message)
    half = ledger.transactions.begin(message, topic)
    half.store = act.on
    since = ledger.since(act.on, topic)
    body = {
        "producerGroup": PRODUCER_GROUP,
        "message": {"body": body_of(message, act.size).decode(), **_queue(act)},
    }
    begun = await _call(doing, "POST", f"/v1/topics/{topic}/transactions", body)
    if not begun.is_success:
        _refused(doing, act, begun)
        return
    shown = begun.json()
    ledger.messages.acknowledged += 1
    if shown["durability"] == FSYNC and ledger.losses.still_holds(act.on, topic, since):
        ledger.transactions.acknowledged(message, act.on, shown["messageId"])
    since = ledger.since(act.on, topic)
    ledger.transactions.requested(message, decision)
    decided = await _call(doing, "POST", f"/v1/transactions/{shown['transactionId']}:{decision}")
    doing.history.add(doing.name, f"{decision} of {message}: {decided.status}")
    if decided.is_success and ledger.losses.still_holds(act.on, topic, since):
        ledger.transactions.decided(message, decision)


async def die_early(doing: Doing, act: Act) -> None:
    """Let messages of the group die after few deliveries."""
    answer = await _call(doing, "PUT", f"/v1/groups/{GROUP}", {"retryMaxTimes": act.number % 3})
    doing.history.add(doing.name, f"{act.kind}: {answer.status}")


async def note_dead_letters(doing: Doing) -> None:
    """Put into the ledger which messages are dead."""
    answer = await _call(doing, "GET", f"/v1/groups/{GROUP}/deadLetters?max=256")
    for one in answer.json()["messages"] if answer.is_success else ():
        origin = one["deadLetter"]
        place = Place(one["broker"], origin["originTopic"], origin["originQueueId"], origin["originOffset"])
        doing.ledger.leases.dead(Sight(place, message_of(one["body"].encode())))


DELAYED = "http send delayed"
TRANSACTION = "http transaction"
SENDS: dict[str, Operation] = {
    "http send": send,
    KEYED: send_with_key,
    "http send batch": send_batch,
    DELAYED: send_delayed,
    TRANSACTION: transaction,
}
RECEIVES: dict[str, Operation] = {
    "http receive": receive_only,
    "http receive, ack": receive_and_ack,
    "http receive, nack": receive_and_nack,
    "http receive, extend": receive_and_extend,
    "http die early": die_early,
}
OPERATIONS: dict[str, Operation] = {**SENDS, **RECEIVES}
