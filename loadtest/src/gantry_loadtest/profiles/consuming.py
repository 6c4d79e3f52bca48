"""A group that receives and acknowledges. Judges each delivery, and redeliveries after an acknowledgement."""

from typing import Any

from gantry_loadtest.judging.history import Arrival
from gantry_loadtest.judging.intervals import Intervals
from gantry_loadtest.load.ports import Calls
from gantry_loadtest.load.reading import settle
from gantry_loadtest.load.run_state import Mark, RunState

Message = dict[str, Any]


class Acknowledged:
    """What a group has acknowledged, and at which attempt: a report of an earlier attempt is late, not a repetition."""

    def __init__(self) -> None:
        self._numbers: dict[int, Intervals] = {}
        self._attempts: dict[tuple[int, int], int] = {}
        """Only where it was not the first."""

    def note(self, mark: Mark, attempt: int) -> None:
        """Record an answered acknowledgement."""
        self._numbers.setdefault(mark.stream, Intervals()).add(mark.number)
        if attempt > 1:
            self._attempts[mark.stream, mark.number] = attempt

    def is_repeated(self, mark: Mark, attempt: int) -> bool:
        """Whether a message was redelivered after an earlier attempt was acknowledged."""
        done = mark.number in self._numbers.get(mark.stream, ())
        return done and attempt > self._attempts.get((mark.stream, mark.number), 1)


class Group:
    """One consumer group of a topic, with any number of consumers; `reader` is its name in the history."""

    def __init__(self, state: RunState, topic: str, group: str, reader: str) -> None:
        self.topic, self.group, self.reader = topic, group, reader
        self._state = state
        self._acknowledged = Acknowledged()

    def judge(self, messages: list[Message]) -> None:
        """Judge received messages."""
        state = self._state
        for message in messages:
            mark = state.recognized(self.reader, message)
            if mark is None:
                continue
            attempt = int(message["deliveryAttempt"])
            where = f"{mark.stream}/{mark.number} at {self.group}, attempt {attempt}"
            arrival, sent = state.history.arrive(self.reader, mark.stream, mark.number)
            if self._acknowledged.is_repeated(mark, attempt):
                state.fault("duplicates", f"{where}, though it was acknowledged")
            elif arrival is Arrival.FIRST and sent is not None:
                state.first_arrival(sent, message, where)
            elif arrival is Arrival.AGAIN:
                state.findings.count("redelivered", state.now())
            else:
                state.fault("forbidden", f"{where}: {'it was refused' if sent else 'it was never sent'}")

    def settle(self, calls: Calls, acks: list[Message], nacks: list[Message] | None = None) -> None:
        """Acknowledge and return messages, and record the results."""
        results = settle(calls, self.topic, self.group, acks, nacks)
        for message, result in zip(acks + (nacks or []), results, strict=False):
            status = result.get("status") or "unsettled"
            self._state.findings.count(status, self._state.now())
            mark = self._state.mark(message.get("body") or "")
            if status == "acked" and mark is not None:
                self._acknowledged.note(mark, int(message["deliveryAttempt"]))

    def offsets(self, calls: Calls) -> dict[tuple[str, int], int]:
        """Return the offset below which everything is done, by broker and queue; empty without an answer."""
        answer = calls.call("last look", "GET", f"/v1/groups/{self.group}/lag?topic={self.topic}")
        if not answer.is_done:
            return {}
        return {(one["broker"], one["queueId"]): int(one["offset"]) for one in answer.body["queues"]}
