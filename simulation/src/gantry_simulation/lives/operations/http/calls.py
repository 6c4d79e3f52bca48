"""One call over HTTP, without a retry, and what every subject needs of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from gantry_simulation.clients.http_client import Answer
from gantry_simulation.lives.operations.doing import Doing
from gantry_simulation.lives.plan import Act

GROUP = "HG"
CALL_SECONDS = 12.0
"""Longer than any call may take: the gateways' time-out for each part that they ask, and the longest wait."""
JSON = dict[str, Any]


async def call(doing: Doing, method: str, path: str, body: object = None) -> Answer:
    """Call a gateway. Raises NoAnswer."""
    return await doing.http().call(method, path, body, seconds=CALL_SECONDS)


def query(**values: object) -> str:
    """Return the query of a path, without the values that are None."""
    given: Mapping[str, object] = {name: value for name, value in values.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


def note_refusal(doing: Doing, act: Act, answer: Answer) -> None:
    """Write a refusal into the history."""
    doing.history.add(doing.name, f"{act.kind} {act.number}: {answer.status} {answer.body[:200].decode()}")


def queue_of(act: Act) -> JSON:
    """Return the queue of an act as a send names it."""
    return {"broker": act.on, "queueId": act.queue}
