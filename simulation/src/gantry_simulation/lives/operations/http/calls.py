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
NOT_FOUND = "QUERY_NOT_FOUND"
"""Says that no expected broker has a message. While no registered broker has its topic, the topic is said not to exist."""
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


async def is_expected(doing: Doing, store: str, topic: str) -> bool:
    """Whether the gateway that answered last expects a store with a topic.

    One that starts while the store is away may not know of it (docs/http-api.md, Errors). Raises NoAnswer.
    """
    answer = await call(doing, "GET", f"/v1/topics/{topic}")
    shown: JSON = answer.json() if answer.is_success else {"brokers": [], "missing": []}
    return store in {*(one["broker"] for one in shown["brokers"]), *shown["missing"]}


async def expected_stores(doing: Doing) -> set[str]:
    """Return the stores that the gateway expects which also gets the next call. Raises NoAnswer.

    It asks them for whatever concerns all stores, or says which are missing. Before the first fault it knows all, and it
    refuses such calls while it knows none.
    """
    stores = set(doing.stores())
    if len(stores) == 1 or not doing.is_harmed():
        return stores
    answer = await call(doing, "GET", "/v1/brokers")
    return {one["broker"] for one in answer.json()["brokers"]} if answer.is_success else set()


def queue_of(act: Act) -> JSON:
    """Return the queue of an act as a send names it."""
    return {"broker": act.on, "queueId": act.queue}
