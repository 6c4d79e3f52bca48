"""The load of the demo: senders that repeat unanswered messages, and a check that reads everything back.

Every message has an idempotency key, so a repeat after a missing answer is safe. The demo shows this.
"""

import http.client
import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from gantry_launcher.errors import Refused

TOPIC = "demo-load"
QUEUES = 4
SENDERS = 4
RETRY_SECONDS = 0.05
GIVE_UP_SECONDS = 30.0
READ_SECONDS_MAX = 60.0
"""How long reading a queue back may stall after the store was killed before that counts as a fault."""
PULL_MESSAGES_MAX = 1024
RETRYABLE = frozenset({429, 502, 503, 504})

Place = tuple[str, int, int]  # broker, queue id, queue offset


class Http:
    """One keep-alive connection to the gateway, opened again after it broke."""

    def __init__(self, base: str) -> None:
        self._host = base.removeprefix("http://")
        self._connection: http.client.HTTPConnection | None = None

    def call(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, Any]]:
        """Return status and JSON; status 0 when there was no answer."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self._host, timeout=35)
        data = None if body is None else json.dumps(body).encode()
        try:
            self._connection.request(method, path, data, {"content-type": "application/json"})
            answer = self._connection.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")
        except (OSError, http.client.HTTPException, ValueError):
            self._connection.close()
            self._connection = None
            return 0, {}

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()


@dataclass
class History:
    """Attempted and acknowledged messages."""

    attempted: int = 0
    repeated: int = 0
    acknowledged: dict[str, Place] = field(default_factory=dict[str, Place])
    refused: list[str] = field(default_factory=list[str])


@dataclass
class Verdict:
    """Result of reading everything back."""

    found: int
    lost: int
    duplicated: int


class Load:
    """Senders in threads, until stopped."""

    def __init__(self, base: str) -> None:
        self.history = History()
        self._base = base
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._send, args=(number,)) for number in range(SENDERS)]

    def start(self) -> None:
        """Begin to send."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop after every sender has finished its current message."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _send(self, number: int) -> None:
        gateway = Http(self._base)
        count = 0
        while not self._stop.is_set():
            name = f"{number}-{count}"
            count += 1
            with self._lock:
                self.history.attempted += 1
            self._until_answered(gateway, name)
        gateway.close()

    def _until_answered(self, gateway: Http, name: str) -> None:
        """Send one message, again and again with the same key, until it is acknowledged or refused."""
        body = {"messages": [{"body": name, "idempotencyKey": name}]}
        until = time.monotonic() + GIVE_UP_SECONDS
        while time.monotonic() < until:
            status, answer = gateway.call("POST", f"/v1/topics/{TOPIC}/messages", body)
            if status == 200:
                result = answer["results"][0]
                with self._lock:
                    place = (result["broker"], result["queueId"], result["queueOffset"])
                    self.history.acknowledged[name] = place
                return
            if status and status not in RETRYABLE:
                with self._lock:
                    self.history.refused.append(f"{status} {answer.get('detail', '')}")
                return
            with self._lock:
                self.history.repeated += 1
            time.sleep(RETRY_SECONDS)


def judge(base: str, history: History) -> Verdict:
    """Read every queue from its beginning and compare it with what was promised."""
    gateway = Http(base)
    stored: dict[Place, str] = {}
    for queue in _queues(gateway):
        stored.update(_read(gateway, queue["broker"], queue["queueId"], queue["maxOffset"]))
    gateway.close()
    times = Counter(stored.values())
    lost = sum(1 for name, place in history.acknowledged.items() if stored.get(place) != name)
    duplicated = sum(count - 1 for count in times.values() if count > 1)
    return Verdict(len(stored), lost, duplicated)


def _queues(gateway: Http) -> list[dict[str, Any]]:
    until = time.monotonic() + READ_SECONDS_MAX
    while time.monotonic() < until:
        status, topic = gateway.call("GET", f"/v1/topics/{TOPIC}")
        if status == 200:
            return topic["queues"]
        time.sleep(RETRY_SECONDS)
    raise Refused(f"topic {TOPIC} cannot be read back")


def _read(gateway: Http, broker: str, queue_id: int, end: int) -> dict[Place, str]:
    """Return all messages of one queue by their place. Raises Refused where it cannot be read to its end."""
    found: dict[Place, str] = {}
    offset = 0
    until = time.monotonic() + READ_SECONDS_MAX
    path = f"/v1/topics/{TOPIC}/queues/{broker}/{queue_id}/messages"
    while offset < end:
        status, answer = gateway.call("GET", f"{path}?offset={offset}&max={PULL_MESSAGES_MAX}")
        if status == 200 and answer["nextOffset"] > offset:
            for message in answer["messages"]:
                found[(broker, queue_id, message["queueOffset"])] = message["body"]
            offset, until = answer["nextOffset"], time.monotonic() + READ_SECONDS_MAX
        elif time.monotonic() > until:
            raise Refused(f"queue {queue_id} of {broker} cannot be read back from offset {offset} on")
        else:
            time.sleep(RETRY_SECONDS)
    return found
