"""Readers of a run: held pulls on one queue, or receives of one group.

Each runs until the run is over and it got an empty answer, so it also sees messages behind the last one.
"""

import time
from collections.abc import Callable
from typing import Any

from gantry_loadtest.judging.history import Place
from gantry_loadtest.load.ports import Calls
from gantry_loadtest.load.run_state import RunState

PULL_MAX = 256
AGAIN_SECONDS = 0.25
"""Wait before a failed call is retried."""


def pull_queue(
    state: RunState,
    calls: Calls,
    reader: str,
    place: Place,
    take_in: Callable[[dict[str, Any]], None],
) -> None:
    """Read a queue from its start, holding a pull at its end, and record the position."""
    topic, broker, queue = place
    offset, is_at_end = 0, False
    while not (state.is_over and is_at_end):
        wanted = f"offset={offset}&max={PULL_MAX}&waitSeconds={state.hold_seconds}"
        answer = calls.call("pull", "GET", f"/v1/topics/{topic}/queues/{broker}/{queue}/messages?{wanted}")
        if not answer.is_done:
            time.sleep(AGAIN_SECONDS)
            continue
        is_at_end = not answer.body["messages"]
        for message in answer.body["messages"]:
            take_in(message)
        offset = int(answer.body["nextOffset"])
        state.progress[reader, place] = offset


def receive_group(
    state: RunState,
    calls: Calls,
    topic: str,
    group: str,
    take_in: Callable[[Calls, list[dict[str, Any]]], None],
    *,
    lease_seconds: int = 30,
    messages_max: int = 32,
) -> None:
    """Receive for a group; take_in acknowledges the messages."""
    path, is_at_end = f"/v1/topics/{topic}/groups/{group}/messages:receive", False
    while not (state.is_over and is_at_end):
        wanted = {
            "maxMessages": messages_max,
            "waitSeconds": state.hold_seconds,
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
    """Acknowledge and return messages. Returns the results, those of acks first; none if the call failed."""
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
