"""Reads the topics of a mixed run at its end, and waits until nothing is in flight."""

from __future__ import annotations

import time

from gantry_loadtest.mixed.calling import Http
from gantry_loadtest.mixed.journeys import POISONED, WORKERS, milliseconds
from gantry_loadtest.mixed.ledger import Ledger

SETTLED_SECONDS_MAX = 240.0
AGAIN_SECONDS = 0.3
PLACES = ("mixed-due", "mixed-txn", "mixed-work")
"""Topics whose messages are read: each message must lie in one of them or among the dead letters, once."""


def read_all(http: Http, ledger: Ledger, more: tuple[str, ...] = ()) -> None:
    """Report to the ledger every message in the topics where messages must arrive, `more` among them."""
    ledger.begin_reading()
    for topic in (*PLACES, *more):
        status, shown = http.insist("GET", f"/v1/topics/{topic}")
        assert status == 200, f"{topic}: {status} {shown}"
        for queue in shown["queues"]:
            _read_queue(http, ledger, topic, queue["broker"], queue["queueId"], queue["maxOffset"])

    _read_dead_letters(http, ledger)


def _read_dead_letters(http: Http, ledger: Ledger) -> None:
    page: str | None = ""
    while page is not None:
        status, answer = http.insist("GET", f"/v1/groups/{POISONED}/deadLetters?max=256&after={page}")
        assert status == 200, f"dead letters: {status} {answer}"
        for message in answer["messages"]:
            ledger.found(message["body"], milliseconds(message["storeTimestamp"]))
        page = answer["next"]


def _read_queue(http: Http, ledger: Ledger, topic: str, broker: str, queue_id: int, end: int) -> None:
    offset = 0
    while offset < end:
        path = f"/v1/topics/{topic}/queues/{broker}/{queue_id}/messages?offset={offset}&max=256"
        status, answer = http.insist("GET", path)
        assert status == 200, f"{path}: {status} {answer}"
        for message in answer["messages"]:
            ledger.found(message["body"], milliseconds(message["storeTimestamp"]))
        assert answer["nextOffset"] > offset, f"{path} does not advance: {answer['status']}"
        offset = answer["nextOffset"]


def wait_until_settled(http: Http, ledger: Ledger, more: tuple[str, ...] = ()) -> None:
    """Read repeatedly until everything promised is there and all work is acknowledged."""
    until = time.monotonic() + SETTLED_SECONDS_MAX
    while time.monotonic() < until:
        read_all(http, ledger, more)
        if not ledger.missing() and (not ledger.undone() or _lag(http) == 0):
            return
        time.sleep(AGAIN_SECONDS)


def _lag(http: Http) -> int:
    _, answer = http.insist("GET", f"/v1/groups/{WORKERS}/lag")
    return int(answer.get("total", 1))
