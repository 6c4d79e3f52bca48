"""Leases over HTTP: messages that are received, acknowledged, given back, extended or kept beyond their lease; the dead ones."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode
from collections.abc import Collection, Sequence
from typing import NamedTuple

from gantry_simulation.ledger.leases import Sight
from gantry_simulation.ledger.places import Place
from gantry_simulation.lives.operations.doing import Doing, Operation, message_of, topic_of
from gantry_simulation.lives.operations.http.calls import GROUP, JSON, call, note_refusal
from gantry_simulation.lives.plan import Act
from gantry_wire.names import retry_topic

INVISIBLE_SECONDS = (1, 2, 4)
WAIT_SECONDS = (0, 0, 1, 3)
NACK_SECONDS = (0.0, 0.5, 2.0)
RECEIVED_MAX = 8
NACK, DIE_EARLY = "http receive, nack", "http die early"
RETRY_FLAG_AT = 5
"""The byte of a receipt that is 1 for a message of the group's retry topic."""


class Handle(NamedTuple):
    """A received message."""

    sight: Sight
    receipt: str
    seen_ns: int

    @property
    def message(self) -> str:
        """Its name."""
        return self.sight.message


def _came_back(receipt: str) -> bool:
    """Whether a message is in the group's retry topic: it is shown with the topic where it was first."""
    return urlsafe_b64decode(receipt[:8])[RETRY_FLAG_AT] == 1


async def receive(doing: Doing, act: Act, seconds: int, wait: int, most: int = RECEIVED_MAX) -> list[Handle]:
    """Receive messages for these seconds."""
    topic, ledger, began_ns = topic_of(act), doing.ledger, doing.now_ns()
    since = {store: ledger.since(store, topic) for store in doing.stores()}
    lives = {store: doing.lives_of(store) for store in since}
    body = {"maxMessages": most, "waitSeconds": wait, "invisibleSeconds": seconds}
    answer = await call(doing, "POST", f"/v1/topics/{topic}/groups/{GROUP}/messages:receive", body)
    if not answer.is_success:
        note_refusal(doing, act, answer)
        return []
    handles: list[Handle] = []
    for one in answer.json()["messages"]:
        message = message_of(one["body"].encode())
        name = retry_topic(GROUP) if _came_back(one["receiptHandle"]) else one["topic"]
        place = Place(one["broker"], name, one["queueId"], one["queueOffset"])
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
    answer = await call(doing, "POST", f"/v1/topics/{topic}/groups/{GROUP}/messages:{verb}", body)
    if not answer.is_success:
        note_refusal(doing, act, answer)
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


async def die_early(doing: Doing, act: Act) -> None:
    """Let messages of the group die after few deliveries."""
    answer = await call(doing, "PUT", f"/v1/groups/{GROUP}", {"retryMaxTimes": act.number % 3})
    doing.history.add(doing.name, f"{act.kind}: {answer.status}")


RECEIVES: dict[str, Operation] = {
    "http receive": receive_only,
    "http receive, ack": receive_and_ack,
    NACK: receive_and_nack,
    "http receive, extend": receive_and_extend,
    DIE_EARLY: die_early,
}
