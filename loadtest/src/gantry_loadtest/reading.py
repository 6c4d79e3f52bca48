"""Readers of a run: one queue by held pulls, one group by receive. Each runs beside the users until it is killed."""

import time
from collections.abc import Callable
from typing import Any

from gantry_loadtest.history import Place
from gantry_loadtest.ports import Calls
from gantry_loadtest.world import World

HOLD_SECONDS = 5
PULL_MAX = 256
AGAIN_SECONDS = 0.25
"""Before a call that failed is made again."""


def pull_queue(
    world: World,
    calls: Calls,
    reader: str,
    place: Place,
    take_in: Callable[[dict[str, Any]], None],
    *,
    hold: bool = True,
) -> None:
    """Read a queue from its beginning, holding a pull at its end; note how far it came."""
    topic, broker, queue = place
    offset = 0
    wait = HOLD_SECONDS if hold else 1
    while not world.is_over:
        path = f"/v1/topics/{topic}/queues/{broker}/{queue}/messages?offset={offset}&max={PULL_MAX}&waitSeconds={wait}"
        answer = calls.call("pull", "GET", path)
        if not answer.is_done:
            time.sleep(AGAIN_SECONDS)
            continue
        for message in answer.body["messages"]:
            take_in(message)
        offset = int(answer.body["nextOffset"])
        world.progress[reader, place] = offset


def receive_group(
    world: World,
    calls: Calls,
    topic: str,
    group: str,
    take_in: Callable[[Calls, list[dict[str, Any]]], None],
    *,
    lease_seconds: int = 30,
    messages_max: int = 32,
) -> None:
    """Receive for a group; what is received is given to take_in, which acknowledges."""
    wanted = {"maxMessages": messages_max, "waitSeconds": HOLD_SECONDS, "invisibleSeconds": lease_seconds}
    while not world.is_over:
        answer = calls.call("receive", "POST", f"/v1/topics/{topic}/groups/{group}/messages:receive", wanted)
        if not answer.is_done:
            time.sleep(AGAIN_SECONDS)
        elif answer.body["messages"]:
            take_in(calls, answer.body["messages"])


def settle(
    calls: Calls,
    topic: str,
    group: str,
    acks: list[dict[str, Any]],
    nacks: list[dict[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """Acknowledge and give back; return the results, those of acks first, none where the call failed."""
    if not acks and not nacks:
        return []
    body = {
        "acks": [{"receiptHandle": one["receiptHandle"]} for one in acks],
        "nacks": [
            {"receiptHandle": one["receiptHandle"], "delaySeconds": 1, "reason": "load"}
            for one in nacks or []
        ],
    }
    return (
        calls.call("ack", "POST", f"/v1/topics/{topic}/groups/{group}/messages:ack", body).body.get("results")
        or []
    )
