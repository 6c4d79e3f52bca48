"""The state one process of a run shares: its clock, history, findings and names. No IO."""

import secrets
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gantry_loadtest.judging.findings import Findings
from gantry_loadtest.judging.history import Arrival, History, Place, Sent
from gantry_loadtest.load.ports import Answer, Calls, Reply
from gantry_loadtest.options import Plan

REFUSED = " (refused)"
"""Suffix of refused calls in Locust's statistics."""
CHECK = "CHECK"
"""Request type of failed checks in Locust's statistics."""
HOLD_SECONDS = 5
LATE_HOLD_SECONDS = 1
PAUSE_SECONDS_MAX = 30.0
DEFAULT_PAUSE_MS = 200


@dataclass
class Sender:
    """One user: a stream of numbered messages."""

    stream: int
    number: int = 0
    paused_until: float = 0.0
    """The end of the gateway's Retry-After, in seconds of the run."""

    def take(self) -> int:
        """Return the next number."""
        self.number += 1
        return self.number - 1


@dataclass(frozen=True)
class Mark:
    """The beginning of a message's body."""

    stream: int
    number: int


class RunState:
    """One run in one process. `now` is in seconds since the load began."""

    def __init__(
        self,
        plan: Plan,
        readers: list[str],
        open_calls: Callable[["RunState"], Calls],
        tell_fault: Callable[[str, str], None],
        size_of: Callable[[Plan, int], int],
    ) -> None:
        self.plan = plan
        self.run = secrets.token_hex(4)
        self.findings = Findings.over(plan.seconds, plan.load_seconds)
        self.history = History(readers)
        self.is_over = False
        self.in_flight = 0
        self.progress: Counter[tuple[str, Place]] = Counter()
        """The position of each reader in each queue: the offset after the last one it saw."""
        self.moved_at = 0.0
        """The second of the run of the last arrival."""
        self._open_calls, self._tell_fault, self._size_of = open_calls, tell_fault, size_of
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
        """Return the second of the run at which users stop, or stopped."""
        return self.findings.load_seconds

    def cut_short(self) -> None:
        """End the load now, if it has not ended."""
        self.findings.load_seconds = min(self.findings.load_seconds, self.now())

    @property
    def is_loading(self) -> bool:
        """Whether users send."""
        return not self.is_over and self.now() < self.load_end

    @property
    def hold_seconds(self) -> int:
        """How long a reader's call may be held on an empty queue: the end of a run waits for the last one.

        A call that begins near the end of the load is held until about its end.
        """
        if self.is_over:
            return 0
        left = int(self.load_end - self.now())
        return min(max(left, LATE_HOLD_SECONDS), HOLD_SECONDS)

    def moved(self) -> None:
        """Record an arrival."""
        self.moved_at = self.now()

    @property
    def is_settled(self) -> bool:
        """Whether the load is over, all of it is due, and everything acknowledged has arrived."""
        return (
            not self.is_loading
            and not self.in_flight
            and not self.history.outstanding
            and self.history.latest_due <= wall_ms()
        )

    @property
    def due_at(self) -> float:
        """The second of the run at which the last kept message is due."""
        return self.now() + (self.history.latest_due - wall_ms()) / 1000

    def calls(self) -> Calls:
        """Return a new client of the gateway."""
        return self._open_calls(self)

    def new_sender(self) -> Sender:
        """Return a new stream."""
        self._streams += 1
        return Sender(self._streams)

    def name(self, what: str) -> str:
        """Return the name of a topic or group of this run."""
        return f"loadtest-{self.run}-{what}"

    def fault(self, kind: str, words: str) -> None:
        """Record a failed check: a count of the verdict, a failure in Locust."""
        self.findings.count(kind, self.now())
        self.findings.example(f"{kind}: {words}")
        self._tell_fault(kind, words)

    def body(self, stream: int, number: int) -> str:
        """Return the body of a message: its stream and number, then filling."""
        mark = f"{self.run} {stream} {number} "
        return mark + "x" * max(0, self._size_of(self.plan, number) - len(mark))

    def mark(self, body: str) -> Mark | None:
        """Read the beginning of a body; None for a message of another run."""
        words = body[:64].split(" ", 3)
        if len(words) != 4 or words[0] != self.run:
            return None
        if not all(word.isascii() and word.isdigit() for word in words[1:3]):
            return None
        return Mark(int(words[1]), int(words[2]))

    def recognized(self, reader: str, message: dict[str, Any]) -> Mark | None:
        """Return the message of a body. An unknown or changed body is a fault."""
        body = message.get("body") or ""
        mark = self.mark(body)
        where = f"{message.get('queueId')}:{message.get('queueOffset')} at {reader}"
        if mark is None:
            self.fault("forbidden", f"{where} has an unknown beginning")
        elif body != self.body(mark.stream, mark.number):
            self.fault(
                "damaged",
                f"{mark.stream}/{mark.number}, {where}, has {len(body)} characters, not as it was sent",
            )
        return mark

    def record_result(
        self, sender: Sender, number: int, intended: float, answer: Answer, measure: str = "send"
    ) -> bool:
        """Record the result of a send; True when it is acknowledged."""
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
        self.refused(Mark(sender.stream, number))
        if answer.reply is Reply.REFUSED:
            self.findings.count("refused", intended)
            pause = min(float(answer.body.get("retryAfterMs") or DEFAULT_PAUSE_MS) / 1000, PAUSE_SECONDS_MAX)
            sender.paused_until = self.now() + pause
        return False

    def refused(self, mark: Mark) -> None:
        """Record a refusal or rollback: the message must not arrive, and must not have arrived."""
        for reader in self.history.refuse(mark.stream, mark.number):
            self.fault("forbidden", f"{mark.stream}/{mark.number} at {reader} before it was refused")

    def arrived(
        self, reader: str, message: dict[str, Any], *, is_ordered: bool = False, is_timed: bool = True
    ) -> tuple[Mark | None, Arrival | None]:
        """Judge an arrival at a pulling reader; its latency counts only where a reader waited."""
        mark = self.recognized(reader, message)
        if mark is None:
            return None, None
        arrival, sent = self.history.arrive(reader, mark.stream, mark.number)
        where = (
            f"{mark.stream}/{mark.number} at {reader}, {message.get('queueId')}:{message.get('queueOffset')}"
        )
        if arrival is Arrival.FIRST and sent is not None:
            self.first_arrival(sent, message, where, is_timed=is_timed)
            if sent.due:
                self.findings.took("lateness", self.now(), max(0.0, wall_ms() - sent.due))
            self._judge_order(reader, mark, message, where, is_ordered=is_ordered)
        elif arrival is Arrival.AGAIN:
            self.fault("duplicates", where)
        else:
            self.fault("forbidden", f"{where}: {'it was refused' if sent else 'it was never sent'}")
        return mark, arrival

    def first_arrival(
        self, sent: Sent, message: dict[str, Any], where: str, *, is_timed: bool = True
    ) -> None:
        """Count the first arrival of a message at a reader; the broker's clock decides whether a delayed one is early."""
        now = self.now()
        self.moved()
        self.findings.count("delivered", now if is_timed else None)
        if not sent.due:
            if is_timed:
                self.findings.took("delivery", sent.intended, (now - sent.intended) * 1000)
            return
        stored = datetime.fromisoformat(message["storeTimestamp"]).timestamp() * 1000
        if stored < sent.due:
            self.fault("early", f"{where}: {sent.due - stored:.0f} ms before its time")

    def _judge_order(
        self, reader: str, mark: Mark, message: dict[str, Any], where: str, *, is_ordered: bool
    ) -> None:
        """Check that a queue arrives by its offsets, and a keyed stream in the order it was sent."""
        place = Place((str(message["topic"]), str(message["broker"]), int(message["queueId"])))
        is_right = self.history.is_ahead_in_queue(reader, place, int(message["queueOffset"]))
        if is_ordered:
            is_right = self.history.is_in_order(reader, mark.stream, mark.number) and is_right
        if not is_right:
            self.fault("disordered", where)

    def has_passed(self, reader: str, place: Place | None, offset: int) -> bool:
        """Whether a reader went beyond an offset."""
        return place is not None and offset >= 0 and self.progress[reader, place] > offset


def wall_ms() -> float:
    """Return the wall clock in ms since 1970, the unit of delivery times."""
    return time.time() * 1000
