"""Readers of a run: one queue by held pulls, one group by receive.

Each runs beside the users until the run is over and it had an answer with nothing in it: so it sees what came behind the last one, too.
"""

import time
from collections.abc import Callable
from typing import Any

from gantry_loadtest.history import Place
from gantry_loadtest.ports import Calls
from gantry_loadtest.world import World

PULL_MAX = 256
AGAIN_SECONDS = 0.25
"""Before a call that failed is made again."""


def pull_queue(
    world: World,
    calls: Calls,
    reader: str,
    place: Place,
    take_in: Callable[[dict[str, Any]], None],
) -> None:
    """Read a queue from its beginning, holding a pull at its end; note how far it came."""
    topic, broker, queue = place
    offset, is_at_end = 0, False
    while not (world.is_over and is_at_end):
        wanted = f"offset={offset}&max={PULL_MAX}&waitSeconds={world.hold_seconds}"
        answer = calls.call("pull", "GET", f"/v1/topics/{topic}/queues/{broker}/{queue}/messages?{wanted}")
        if not answer.is_done:
            time.sleep(AGAIN_SECONDS)
            continue
        is_at_end = not answer.body["messages"]
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
    path, is_at_end = f"/v1/topics/{topic}/groups/{group}/messages:receive", False
    while not (world.is_over and is_at_end):
        wanted = {
            "maxMessages": messages_max,
            "waitSeconds": world.hold_seconds,
            "invisibleSeconds": lease_seconds,
        }
        answer = calls.call("receive", "POST", path, wanted)
        if not answer.is_done:
            time.sleep(AGAIN_SECONDS)
            continue
        is_at_end = not answer.body["messages"]
        if answer.body["messages"]:
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
