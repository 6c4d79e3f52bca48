"""The loop behind `gantrymq consume`: receives as many messages as can run, settles finished ones, extends the leases of running ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from gantrymq.cli.calls import path_of
from gantrymq.cli.executing import Finished, Worker
from gantrymq.cli.session import Session
from gantrymq.cli.shapes import one_line

BATCH_MAX = 256
HOLD_SECONDS = 20
LOOK_SECONDS = 1.0
"""How often to ask for messages while some run and there is room for more."""


class Consuming:
    """One group's work on one topic: `done` were acknowledged, `failed` were given back or too late."""

    def __init__(
        self,
        session: Session,
        topic: str,
        group: str,
        worker: Worker,
        lease_seconds: int,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session, self._worker, self._lease_seconds, self._now = session, worker, lease_seconds, now
        self._topic, self._group = topic, group
        self.done: int = 0
        self.failed: int = 0
        self._held: set[str] = set()
        self._kept_at = now()

    def run(self, wanted: dict[str, Any], limit: int | None, *, until_empty: bool) -> None:
        """Work until the limit, until there is no message, or without end. Raises Stop."""
        taken = 0
        while True:
            room = self._worker.room if limit is None else min(self._worker.room, limit - taken)
            if room > 0:
                taken += self._receive(wanted, room, hold=0 if until_empty or self._held else HOLD_SECONDS)
            if not self._held:
                if until_empty or (limit is not None and taken >= limit):
                    return
                continue
            pause = self._lease_seconds / 6  # leases are extended after a third: at least half of one is left
            self._settle(self._worker.finished(min(LOOK_SECONDS, pause) if room > 0 else pause))
            self._keep_leases()

    def give_back(self) -> int:
        """Give unfinished messages back at once; return their number."""
        nacks = [{"receiptHandle": handle, "delaySeconds": 0} for handle in sorted(self._held)]
        self._held.clear()
        if nacks:
            self._session.post(self._path("ack"), {"nacks": nacks})
        return len(nacks)

    def _path(self, verb: str) -> str:
        return path_of("topics", self._topic, "groups", self._group, f"messages:{verb}")

    def _receive(self, wanted: dict[str, Any], room: int, hold: int) -> int:
        body = {
            "maxMessages": min(room, BATCH_MAX), "waitSeconds": hold, "invisibleSeconds": self._lease_seconds, **wanted,
        }  # fmt: skip
        asked_at = self._now()
        found = self._session.post(self._path("receive"), body, hold_seconds=hold)["messages"]
        if not self._held:
            self._kept_at = asked_at if not hold else self._now()
        for message in found:
            self._held.add(message["receiptHandle"])
            self._worker.begin(message)
        return len(found)

    def _keep_leases(self) -> None:
        """Extend the leases of running messages, three times per lease."""
        if not self._held or self._now() - self._kept_at < self._lease_seconds / 3:
            return
        extends = [{"receiptHandle": handle} for handle in sorted(self._held)]
        body = {"extends": extends, "invisibleSeconds": self._lease_seconds}
        self._session.post(self._path("extend"), body)
        self._kept_at = self._now()

    def _settle(self, finished: list[Finished]) -> None:
        if not finished:
            return
        well = [one for one in finished if one.status == 0]
        bad = [one for one in finished if one.status != 0]
        acks = [{"receiptHandle": one.handle} for one in well]
        nacks = [{"receiptHandle": one.handle, "reason": one.words} for one in bad]
        self._held -= {one.handle for one in finished}
        results = self._session.post(self._path("ack"), {"acks": acks, "nacks": nacks})["results"]
        for one, result in zip([*well, *bad], results, strict=True):
            self._report(one, result.get("status") or result.get("code", ""))

    def _report(self, one: Finished, became: str) -> None:
        """Count a message and report its outcome: `acked`, `nacked`, or why it could not be settled."""
        self.done += became == "acked"
        self.failed += became != "acked"
        screen = self._session.screen
        if screen.as_json:
            screen.json({"messageId": one.message_id, "exitStatus": one.status, "result": became})
        elif became == "nacked":
            screen.say(f"{one.message_id}: {one_line(one.words)}; given back")
        elif became != "acked":
            screen.say(
                f"{one.message_id}: {one_line(one.words)}; not settled ({became}), it is delivered again"
            )
