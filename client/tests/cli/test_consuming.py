"""The loop of `gantrymq consume`, with a scripted gateway and scripted commands: receiving, extending leases, settling, giving back."""

from __future__ import annotations

import io
from itertools import pairwise
from typing import Any

import pytest

from gantrymq.cli.consuming import HOLD_SECONDS, Consuming
from gantrymq.cli.executing import Finished
from gantrymq.cli.screen import Screen
from gantrymq.cli.stops import Stop


class Played:
    """A session, a worker and a clock in one: messages are handed out as they are asked for, commands return scripted results."""

    def __init__(self, messages: list[str], ends: list[list[tuple[str, int]]], parallel: int = 1) -> None:
        self.waiting, self.ends, self.room = messages, ends, parallel
        self.posts: list[tuple[str, dict[str, Any]]] = []
        self.acks: dict[str, str] = {}
        self.out, self.err = io.StringIO(), io.StringIO()
        self.screen = Screen(as_json=False, out=self.out, err=self.err)
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def post(self, path: str, body: dict[str, Any], *, hold_seconds: float = 0) -> dict[str, Any]:
        verb = path.rpartition(":")[2]
        self.posts.append((verb, body))
        if verb == "receive":
            found = [self.waiting.pop(0) for _ in range(min(body["maxMessages"], len(self.waiting)))]
            if not found and body["waitSeconds"]:
                raise Stop("the test has no more")
            return {"messages": [{"receiptHandle": one, "messageId": one} for one in found]}
        settled = [*body.get("acks", []), *body.get("nacks", [])]
        kinds = ["acked"] * len(body.get("acks", [])) + ["nacked"] * len(body.get("nacks", []))
        answers = [
            self.acks.get(one["receiptHandle"], kind) for one, kind in zip(settled, kinds, strict=True)
        ]
        return {"results": [{"status": one} for one in answers]}

    def begin(self, _message: dict[str, Any]) -> None:
        self.room -= 1

    def finished(self, wait_seconds: float) -> list[Finished]:
        ended = self.ends.pop(0)
        if not ended:
            self.seconds += wait_seconds
        self.room += len(ended)
        return [Finished(handle, handle, status, f"exit status {status}") for handle, status in ended]

    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.posts]


def consuming(played: Played, lease: int = 30) -> Consuming:
    return Consuming(played, "t", "g", played, lease, now=played.now)  # pyright: ignore[reportArgumentType]


def test_it_consumes_until_the_topic_is_empty() -> None:
    played = Played(["A", "B"], [[("A", 0)], [("B", 3)]])
    work = consuming(played)
    work.run({}, None, until_empty=True)
    assert (work.done, work.failed) == (1, 1)
    assert played.verbs() == ["receive", "ack", "receive", "ack", "receive"]
    assert played.posts[3][1] == {"acks": [], "nacks": [{"receiptHandle": "B", "reason": "exit status 3"}]}
    assert played.err.getvalue() == "B: exit status 3; given back\n"


def test_it_stops_at_the_limit() -> None:
    played = Played(["A", "B", "C"], [[("A", 0), ("B", 0)]], parallel=8)
    work = consuming(played)
    work.run({}, 2, until_empty=False)
    assert (work.done, played.waiting) == (2, ["C"])
    assert played.posts[0][1]["maxMessages"] == 2
    assert played.posts[0][1]["waitSeconds"] == HOLD_SECONDS


def test_a_long_command_keeps_its_lease_while_short_ones_run() -> None:
    played = Played(["long"], [[], [], [], [], [("long", 0)]], parallel=2)
    work = consuming(played, lease=6)
    work.run({}, None, until_empty=True)
    extends = [body for verb, body in played.posts if verb == "extend"]
    assert (
        extends == [{"extends": [{"receiptHandle": "long"}], "invisibleSeconds": 6}] * 2
    )  # after 2 s and 4 s
    assert work.done == 1


def test_a_lease_of_a_second_is_extended_even_with_room_for_more() -> None:
    played = Played(["long"], [*[[]] * 12, [("long", 0)]], parallel=2)
    pauses: list[float] = []
    finished = played.finished

    def noted(wait_seconds: float) -> list[Finished]:
        pauses.append(wait_seconds)
        return finished(wait_seconds)

    played.finished = noted  # type: ignore[method-assign]
    extended_at: list[float] = []
    post = played.post

    def noting(path: str, body: dict[str, Any], *, hold_seconds: float = 0) -> dict[str, Any]:
        if path.endswith("extend"):
            extended_at.append(played.seconds)
        return post(path, body, hold_seconds=hold_seconds)

    played.post = noting  # type: ignore[method-assign]
    consuming(played, lease=1).run({}, None, until_empty=True)
    assert sum(pauses) > 1
    kept = [0.0, *extended_at, sum(pauses)]
    assert max(after - before for before, after in pairwise(kept)) <= 0.51


def test_a_late_acknowledgement_is_reported() -> None:
    played = Played(["A"], [[("A", 0)]])
    played.acks = {"A": "leaseExpired"}
    work = consuming(played)
    work.run({}, None, until_empty=True)
    assert (work.done, work.failed) == (0, 1)
    assert "A: exit status 0; not settled (leaseExpired), it is delivered again" in played.err.getvalue()


def test_unfinished_messages_are_given_back() -> None:
    played = Played(["A", "B"], [], parallel=2)
    work = consuming(played)
    with pytest.raises(IndexError):  # as Ctrl-C ends it, in the middle
        work.run({}, None, until_empty=True)
    work.give_back()
    work.give_back()
    gone = [{"receiptHandle": "A", "delaySeconds": 0}, {"receiptHandle": "B", "delaySeconds": 0}]
    assert played.posts[-1] == ("ack", {"nacks": gone})
    assert played.verbs().count("ack") == 1
