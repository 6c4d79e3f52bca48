"""`transactions`: of ten, six are committed, two rolled back, and two lose their producer.

The lost ones stay undecided until the broker checks with the producer's group, where another client answers.
"""

import time
from collections.abc import Callable
from typing import Any

from gantry_loadtest.judging.findings import Findings
from gantry_loadtest.load.ports import Calls
from gantry_loadtest.load.reading import AGAIN_SECONDS
from gantry_loadtest.load.run_state import Mark, RunState, Sender
from gantry_loadtest.options import Plan
from gantry_loadtest.pages.wording import latency
from gantry_loadtest.profiles.base import Profile

OF = 10
ROLLED_BACK = {6, 7}
LOST_COMMIT, LOST_ROLLBACK = 8, 9


class Chosen(Profile):
    """Begins and decides transactions; a poller answers the broker's checks."""

    act_measure = "transaction"

    def __init__(self, state: RunState) -> None:
        super().__init__(state)
        self.group = state.name("p")
        self._undecided: dict[Mark, float] = {}
        """Begun, nobody has asked for a decision yet; since when."""
        self._early: set[Mark] = set()
        """Came before that: one word for one message, also where it is rolled back afterwards."""

    def act(self, calls: Calls, sender: Sender, intended: float) -> None:
        """Begin a transaction and, unless its producer is lost, decide it."""
        mark = Mark(sender.stream, sender.take())
        self.state.history.begin(mark.stream, mark.number, intended)
        self._undecided[mark] = self.state.now()
        begun = calls.call(
            "begin", "POST", f"/v1/topics/{self.topic}/transactions",
            {"producerGroup": self.group, "message": {"body": self.state.body(sender.stream, mark.number)}}, since=intended,
        )  # fmt: skip
        if not begun.is_done:
            del self._undecided[mark]
            self.state.record_result(sender, mark.number, intended, begun, "begin")
            return
        self.state.findings.took("begin", intended, begun.ms)
        if mark.number % OF in {LOST_COMMIT, LOST_ROLLBACK}:
            self.state.findings.count("lostProducers", intended)
        else:
            self._decide(calls, mark, begun.body["transactionId"], intended)

    def watchers(self) -> list[Callable[[Calls], None]]:
        """Return the readers, and the client that answers for lost producers."""
        return [*super().watchers(), self._answer_checks]

    def is_settled(self) -> bool:
        """Whether the lost ones are decided, too."""
        return self.state.is_settled and not self._undecided

    def take_in(self, message: dict[str, Any]) -> None:
        """Judge a message; one that arrives before its commit is early."""
        mark = self.state.mark(message.get("body") or "")
        if mark is not None and mark in self._undecided:
            self._early.add(mark)
            self.state.fault("early", f"{mark.stream}/{mark.number} came before it was committed")
        super().take_in(message)

    def last_look(self, calls: Calls, *, has_waited: bool) -> None:
        """Judge as in other profiles. A transaction that was never checked in all that time is lost, too."""
        super().last_look(calls, has_waited=has_waited)
        if not has_waited:
            self.state.findings.count("notSeen", number=len(self._undecided))
            return
        for mark in self._undecided:
            self.state.fault(
                "lost", f"{mark.stream}/{mark.number}, begun and left alone: the broker never asked about it"
            )

    @staticmethod
    def answer(findings: Findings, plan: Plan) -> list[str]:
        """Return latencies, and how the lost ones ended."""
        counts = findings.counts
        asked = findings.of("asked")
        lost = (
            f"{asked.count} of them were asked about, {latency(asked)} after they began"
            if asked.count
            else "the run was too short to see one asked about (6 s and more after it began)"
        )
        return [
            (
                f"{findings.per_second('committed'):.1f} commits and {findings.per_second('rolledBack'):.1f} "
                f"rollbacks a second, of {findings.per_second('intended'):.1f} transactions intended."
            ),
            f"Begin and decision together took {latency(findings.of('transaction'))}.",
            f"From the wish to commit to the consumer: {latency(findings.of('delivery'))}.",
            f"{counts['lostProducers']} lost their producer; {lost}.",
            f"Delivered though rolled back: {counts['forbidden']}; before the commit: {counts['early']}.",
        ]

    def _decide(self, calls: Calls, mark: Mark, transaction: str, since: float | None) -> None:
        is_commit = mark.number % OF not in {*ROLLED_BACK, LOST_ROLLBACK}
        asked_at = self.state.now()
        self._undecided.pop(mark, None)
        sent = self.state.history.sent(mark.stream, mark.number)
        if sent is not None:
            sent.intended = asked_at
        name = "commit" if is_commit else "rollback"
        answer = calls.call(name, "POST", f"/v1/transactions/{transaction}:{name}", since=asked_at)
        if not answer.is_done:
            self.state.findings.count("unknown", asked_at)
            return
        self.state.findings.count(answer.body["status"], asked_at)
        if since is not None:
            self.state.findings.took("transaction", since, (self.state.now() - since) * 1000)
        if is_commit:
            self.state.findings.count("acknowledged", asked_at)
            self.state.history.acknowledge(mark.stream, mark.number)
        elif mark in self._early:
            self.state.history.refuse(mark.stream, mark.number)
        else:
            self.state.refused(mark)

    def _answer_checks(self, calls: Calls) -> None:
        path = f"/v1/producerGroups/{self.group}/checks:receive"
        while not self.state.is_over:
            answer = calls.call(
                "checks", "POST", path, {"waitSeconds": self.state.hold_seconds, "maxChecks": 32}
            )
            if not answer.is_done:
                time.sleep(AGAIN_SECONDS)
                continue
            for check in answer.body["checks"]:
                mark = self.state.mark(check["message"].get("body") or "")
                if mark is None or mark not in self._undecided:
                    continue
                since = self._undecided[mark]
                self.state.moved()
                self.state.findings.took("asked", since, (self.state.now() - since) * 1000)
                self._decide(calls, mark, check["transactionId"], None)
