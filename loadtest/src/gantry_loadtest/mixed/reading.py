"""Reads at the end what lies in the topics of a mixed run, and waits until nothing is on its way any more."""

from __future__ import annotations

import time

from gantry_loadtest.mixed.books import Books
from gantry_loadtest.mixed.calling import Http
from gantry_loadtest.mixed.journeys import POISONED, WORKERS, milliseconds

SETTLED_SECONDS_MAX = 240.0
PLACES = ("mixed-due", "mixed-txn", "mixed-work")
"""Topics whose messages are read: each message must lie in one of them or among the dead letters, once."""


def read_all(http: Http, books: Books) -> None:
    """Tell the books everything that lies in the topics where messages must appear."""
    books.begin_reading()
    for topic in PLACES:
        status, shown = http.insist("GET", f"/v1/topics/{topic}")
        assert status == 200, f"{topic}: {status} {shown}"
        for queue in shown["queues"]:
            _read_queue(http, books, topic, queue["broker"], queue["queueId"], queue["maxOffset"])

    _read_dead_letters(http, books)


def _read_dead_letters(http: Http, books: Books) -> None:
    page: str | None = ""
    while page is not None:
        status, answer = http.insist("GET", f"/v1/groups/{POISONED}/deadLetters?max=256&after={page}")
        assert status == 200, f"dead letters: {status} {answer}"
        for message in answer["messages"]:
            books.found(message["body"], milliseconds(message["storeTimestamp"]))
        page = answer["next"]


def _read_queue(http: Http, books: Books, topic: str, broker: str, queue_id: int, end: int) -> None:
    offset = 0
    while offset < end:
        path = f"/v1/topics/{topic}/queues/{broker}/{queue_id}/messages?offset={offset}&max=256"
        status, answer = http.insist("GET", path)
        assert status == 200, f"{path}: {status} {answer}"
        for message in answer["messages"]:
            books.found(message["body"], milliseconds(message["storeTimestamp"]))
        assert answer["nextOffset"] > offset, f"{path} stands still: {answer['status']}"
        offset = answer["nextOffset"]


def wait_until_settled(http: Http, books: Books) -> None:
    """Read again and again until everything promised is there, and everything to be worked on was acknowledged."""
    until = time.monotonic() + SETTLED_SECONDS_MAX
    while time.monotonic() < until:
        read_all(http, books)
        if not books.missing() and (not books.undone() or _lag(http) == 0):
            return
        time.sleep(1)


def _lag(http: Http) -> int:
    _, answer = http.insist("GET", f"/v1/groups/{WORKERS}/lag")
    return int(answer.get("total", 1))
