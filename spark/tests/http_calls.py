"""HTTP API calls that tests need: create topics, send messages, run a load in the background."""

from __future__ import annotations

import contextlib
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any


def call(base: str, method: str, path: str, body: Any = None) -> Any:
    """Return the JSON of a response."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=120) as answer:
        content = answer.read()
    return json.loads(content) if content else None


def send(base: str, topic: str, bodies: list[str], **fields: Any) -> None:
    """Send messages; each must be stored."""
    for first in range(0, len(bodies), 500):
        messages = [{"body": body, **fields} for body in bodies[first : first + 500]]
        results = call(base, "POST", f"/v1/topics/{topic}/messages", {"messages": messages})["results"]
        assert all(result["status"] == "SEND_OK" for result in results)


@contextlib.contextmanager
def load(base: str, topic: str, pause: float = 0) -> Iterator[list[int]]:
    """Send to a topic while the block runs, with `pause` seconds between requests; the list holds the number of messages sent so far."""
    sent, ends = [0], threading.Event()

    def work() -> None:
        while not ends.is_set():
            send(base, topic, [f"load {sent[0] + n}" for n in range(100)], tag="load")
            sent[0] += 100
            ends.wait(pause)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield sent
    finally:
        ends.set()
        thread.join()
