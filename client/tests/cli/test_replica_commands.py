"""`gantrymq cluster replicas` and `move-leader`, over scripted answers of a gateway."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from gantrymq.cli import calls
from gantrymq.cli.commands import replicas
from gantrymq.cli.main import main
from gantrymq.cli.stops import FAILED, UNREACHABLE, WRONG_USE, Stop

GATEWAY = ["--http", "127.0.0.1:1"]
Script = Callable[..., list[tuple[Any, ...]]]


def group(leader: str, epoch: int, *, accepts: bool = True) -> dict[str, Any]:
    return {
        "broker": "broker-a",
        "leader": leader,
        "epoch": epoch,
        "leadsForMs": 130_000,
        "acceptsSends": accepts,
        "registerFault": "",
        "replicas": [],
    }


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Answer the call that moves the lead, then each look at the cluster, the last one again and again."""
    monkeypatch.setattr(replicas, "LOOK_SECONDS", 0.001)

    def scripted(*looks: Any) -> list[tuple[Any, ...]]:
        asked: list[tuple[Any, ...]] = []
        left = list(looks)

        def call(_self: object, method: str, path: str, *_: object, **query: Any) -> Any:
            if method == "POST":
                asked.append((path, query.get("to")))
                return {"broker": "broker-a", "leader": "a", "epoch": 3, "to": query.get("to")}
            found = left.pop(0) if len(left) > 1 else left[0]
            if isinstance(found, Stop):
                raise found
            return {"groups": [found] if found else [], "missing": []}

        monkeypatch.setattr(calls.Calls, "call", call)
        return asked

    return scripted


def move(*words: str) -> int:
    return main(["cluster", "move-leader", "broker-a", *words, *GATEWAY])


def test_a_move_is_shown_until_another_replica_takes_sends(
    script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    away = Stop("no gateway", UNREACHABLE)
    asked = script(group("a", 3), None, away, group("", 0), group("b", 4, accepts=False), group("b", 4))
    assert move("--to", "b") == 0
    assert asked == [("/v1/brokers/broker-a:moveLeader", "b")]
    shown = capsys.readouterr()
    assert shown.err.splitlines() == [
        "broker-a: a hands over to b",
        "broker-a: a still leads",
        "broker-a: no replica leads yet",
        "broker-a: b leads in epoch 4, and takes sends when more replicas are in sync",
    ]
    assert re.fullmatch(r"broker-a: b leads in epoch 4, after \d+\.\d s\n", shown.out)


def test_a_move_that_takes_too_long_says_how_far_it_is(
    script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    script(group("", 0))
    assert move("--timeout", "10ms") == FAILED
    assert "broker-a: after 0 s no replica leads yet; gantrymq cluster replicas" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("leads", "words"),
    [("c", "c leads in epoch 4, not b"), ("a", "a leads in epoch 4, not b")],
)
def test_a_move_to_another_replica_than_the_named_one_has_failed(
    script: Script, capsys: pytest.CaptureFixture[str], leads: str, words: str
) -> None:
    script(group(leads, 4))
    assert move("--to", "b") == FAILED
    assert words in capsys.readouterr().err


def test_replicas_say_since_when_the_leader_leads(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    script(group("a", 3))
    assert main(["cluster", "replicas", *GATEWAY]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(r"broker-a: a leads since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \(2m\)", last)


@pytest.mark.parametrize(
    ("words", "then"),
    [
        (["add-replica", "broker-a"], "./gantry replicas add broker-a"),
        (["remove-replica", "broker-a", "c"], "./gantry replicas remove broker-a c"),
    ],
)
def test_replicas_are_added_where_the_stores_run(
    capsys: pytest.CaptureFixture[str], words: list[str], then: str
) -> None:
    assert main(["cluster", *words, *GATEWAY]) == WRONG_USE
    assert then in capsys.readouterr().err
