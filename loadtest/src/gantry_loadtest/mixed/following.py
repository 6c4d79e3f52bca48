"""Reads topics as they grow, each message once and before retention deletes it, and reports to the ledger."""

from __future__ import annotations

import threading
import time
from urllib.parse import quote

from gantry_loadtest.mixed.calling import Http
from gantry_loadtest.mixed.journeys import milliseconds
from gantry_loadtest.mixed.ledger import Ledger

IDLE_SECONDS = 0.3
PAGE = 256


class Reader(threading.Thread):
    """Repeats `turn` until stopped; `failure` keeps the error that ended it."""

    def __init__(self, base: str, ledger: Ledger) -> None:
        super().__init__(daemon=True, name=type(self).__name__)
        self.http, self.ledger = Http(base), ledger
        self.stopping = False
        self.failure: BaseException | None = None
        self.read = 0
        self.skipped = 0
        """Offsets lost before they were read: deleted by retention, or damaged."""

    def run(self) -> None:
        """Read until stopped."""
        try:
            while not self.stopping:
                if not self.turn():
                    time.sleep(IDLE_SECONDS)
        except BaseException as error:  # noqa: BLE001 - reported to the caller
            self.failure = error
        finally:
            self.http.close()

    def turn(self) -> bool:
        """Read once; return whether there was anything."""
        raise AssertionError("a reader has turns")


class Follower(Reader):
    """Follows queues of a topic from their start. With `wait_seconds` pulls are held, for one queue only."""

    def __init__(
        self, base: str, ledger: Ledger, topic: str, queues: list[tuple[str, int]], wait_seconds: int = 0
    ) -> None:
        super().__init__(base, ledger)
        self._topic, self._wait = topic, wait_seconds
        self._next = dict.fromkeys(queues, 0)

    def turn(self) -> bool:  # noqa: D102 - see the base class
        return sum(self._pull(broker, queue_id) for broker, queue_id in self._next) > 0

    def _pull(self, broker: str, queue_id: int) -> bool:
        offset = self._next[broker, queue_id]
        path = f"/v1/topics/{self._topic}/queues/{broker}/{queue_id}/messages"
        words = f"offset={offset}&max={PAGE}&waitSeconds={self._wait}"
        status, answer = self.http.insist("GET", f"{path}?{words}")
        assert status == 200, f"{path}?{words}: {status} {answer}"
        for message in answer["messages"]:
            self.skipped += message["queueOffset"] - offset
            offset = message["queueOffset"] + 1
            self.ledger.found(message["body"], milliseconds(message["storeTimestamp"]))
        assert answer["nextOffset"] >= offset, f"{path}?{words} goes back: {answer['nextOffset']}"
        self.skipped += answer["nextOffset"] - offset
        self.read += len(answer["messages"])
        self._next[broker, queue_id] = answer["nextOffset"]
        return bool(answer["messages"])


class DeadLetters(Reader):
    """Follows the dead letters of a group."""

    def __init__(self, base: str, ledger: Ledger, group: str) -> None:
        super().__init__(base, ledger)
        self._group, self._after = group, ""
        self._seen: set[str] = set()

    def turn(self) -> bool:  # noqa: D102 - see the base class
        path = f"/v1/groups/{self._group}/deadLetters?max={PAGE}&after={quote(self._after)}"
        status, answer = self.http.insist("GET", path)
        assert status == 200, f"{path}: {status} {answer}"
        fresh = [message for message in answer["messages"] if message["offsetMessageId"] not in self._seen]
        for message in fresh:
            self._seen.add(message["offsetMessageId"])
            self.ledger.found(message["body"], milliseconds(message["storeTimestamp"]))
        self.read += len(fresh)
        if answer["next"] is None:
            return False
        self._after = answer["next"]
        self._seen.clear()
        return True
