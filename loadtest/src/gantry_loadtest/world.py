"""What one process of a run shares: its clock, its history, what it has found, and its names. No IO."""

import secrets
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gantry_loadtest.findings import Findings
from gantry_loadtest.history import Arrival, History, Place, Sent
from gantry_loadtest.options import Plan
from gantry_loadtest.ports import Answer, Calls, Reply

REFUSED = " (refused)"
"""Ends the name of a call that was refused, in Locust's statistics."""
CHECK = "CHECK"
"""The kind of a fault that our checks found, in Locust's statistics."""
PAUSE_SECONDS_MAX = 30.0
DEFAULT_PAUSE_MS = 200


@dataclass
class Sender:
    """One user: a stream of numbered messages."""

    stream: int
    number: int = 0
    paused_until: float = 0.0
    """Until when the gateway asked it not to come again, in seconds of the run."""

    def take(self) -> int:
        """Return the next number."""
        self.number += 1
        return self.number - 1


@dataclass(frozen=True)
class Mark:
    """What the body of a message begins with."""

    stream: int
    number: int


class World:
    """One run in one process. `now` is in seconds since the load began."""

    def __init__(
        self,
        plan: Plan,
        readers: list[str],
        open_calls: Callable[["World"], Calls],
        tell_fault: Callable[[str, str], None],
    ) -> None:
        self.plan = plan
        self.run = secrets.token_hex(4)
        self.findings = Findings.over(plan.seconds, plan.load_seconds)
        self.history = History(readers)
        self.is_over = False
        self.in_flight = 0
        self.progress: Counter[tuple[str, Place]] = Counter()
        """How far each reader has come in each queue: the offset after the last one it saw."""
        self._open_calls, self._tell_fault = open_calls, tell_fault
        self._began = time.monotonic()
        self._streams = 0

    def begin(self) -> None:
        """Start the clock."""
        self._began = time.monotonic()

    def now(self) -> float:
        """Return the second of the run."""
        return time.monotonic() - self._began

    @property
    def load_end(self) -> float:
        """Return the second of the run at which users end, or ended."""
        return self.findings.load_seconds

    def cut_short(self) -> None:
        """Let the load end now, if it has not ended."""
        self.findings.load_seconds = min(self.findings.load_seconds, self.now())

    @property
    def is_loading(self) -> bool:
        """Whether users send."""
        return not self.is_over and self.now() < self.load_end

    @property
    def is_settled(self) -> bool:
        """Whether the load is over and everything acknowledged has arrived."""
        return not self.is_loading and not self.in_flight and not self.history.outstanding

    def calls(self) -> Calls:
        """Return a new client of the gateway."""
        return self._open_calls(self)

    def new_sender(self) -> Sender:
        """Return a stream of its own."""
        self._streams += 1
        return Sender(self._streams)

    def name(self, what: str) -> str:
        """Return the name of a topic or group of this run."""
        return f"loadtest-{self.run}-{what}"

    def fault(self, kind: str, words: str) -> None:
        """Note what a check found: a count of the verdict, a failure in Locust."""
        self.findings.count(kind, self.now())
        self.findings.example(f"{kind}: {words}")
        self._tell_fault(kind, words)

    def body(self, sender: Sender, number: int, size: int | None = None) -> str:
        """Return the body of a message: who sent it, then filling."""
        mark = f"{self.run} {sender.stream} {number} "
        return mark + "x" * max(0, (self.plan.size if size is None else size) - len(mark))

    def mark(self, body: str) -> Mark | None:
        """Read the beginning of a body; None where it is of another run."""
        words = body[:64].split(" ", 3)
        if len(words) != 4 or words[0] != self.run:
            return None
        return Mark(int(words[1]), int(words[2]))

    def told(
        self, sender: Sender, number: int, intended: float, answer: Answer, measure: str = "send"
    ) -> bool:
        """Note what became of a send; True where it is acknowledged."""
        if answer.is_done:
            self.findings.took(measure, intended, answer.ms)
            self.findings.count("acknowledged", intended)
            result = (answer.body.get("results") or [{}])[0]
            place = Place(
                (str(result.get("topic", "")), str(result.get("broker")), int(result.get("queueId", -1)))
            )
            offset = result.get("queueOffset")
            self.history.acknowledge(sender.stream, number, place, -1 if offset is None else int(offset))
            return True
        if answer.reply is Reply.UNKNOWN:
            self.findings.count("unknown", intended)
            return False
        self.history.refuse(sender.stream, number)
        if answer.reply is Reply.REFUSED:
            self.findings.count("refused", intended)
            pause = min(float(answer.body.get("retryAfterMs") or DEFAULT_PAUSE_MS) / 1000, PAUSE_SECONDS_MAX)
            sender.paused_until = self.now() + pause
        return False

    def arrived(
        self, reader: str, message: dict[str, Any], *, is_ordered: bool = False, is_timed: bool = True
    ) -> tuple[Mark | None, Arrival | None]:
        """Judge an arrival at a reader that gets everything once; how long it took only matters where somebody waited for it."""
        mark = self.mark(message.get("body") or "")
        if mark is None:
            return None, None
        arrival, sent = self.history.arrive(reader, mark.stream, mark.number)
        where = (
            f"{mark.stream}/{mark.number} at {reader}, {message.get('queueId')}:{message.get('queueOffset')}"
        )
        if arrival is Arrival.FIRST and sent is not None:
            self.findings.count("delivered", self.now() if is_timed else None)
            if sent.due:
                self._judge_time(sent, message, where)
            elif is_timed:
                self.findings.took("delivery", sent.intended, (self.now() - sent.intended) * 1000)
            if is_ordered and not self.history.is_in_order(reader, mark.stream, mark.number):
                self.fault("disordered", where)
        elif arrival is Arrival.AGAIN:
            self.fault("duplicates", where)
        else:
            self.fault("forbidden", f"{where}: {'it was refused' if sent else 'it was never sent'}")
        return mark, arrival

    def _judge_time(self, sent: Sent, message: dict[str, Any], where: str) -> None:
        """Judge when a delayed message came: early by the broker's own clock, late by ours."""
        stored = datetime.fromisoformat(message["storeTimestamp"]).timestamp() * 1000
        if stored < sent.due:
            self.fault("early", f"{where}: {sent.due - stored:.0f} ms before its time")
        self.findings.took("lateness", self.now(), max(0.0, wall_ms() - sent.due))

    def has_passed(self, reader: str, place: Place | None, offset: int) -> bool:
        """Whether a reader went on beyond an offset."""
        return place is not None and offset >= 0 and self.progress[reader, place] > offset


def wall_ms() -> float:
    """Return the wall clock, in ms since 1970: what delays are told in."""
    return time.time() * 1000
