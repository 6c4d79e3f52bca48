"""Profiles judge the responses and deliveries of a gateway; here the gateway is a script that a test can make return wrong data."""

import importlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from gantry_loadtest.catalog import PROFILES
from gantry_loadtest.judging.findings import Findings
from gantry_loadtest.judging.history import Place
from gantry_loadtest.load.ports import Answer, Calls, Reply, reply_of
from gantry_loadtest.load.run_state import Mark, RunState, Sender, wall_ms
from gantry_loadtest.options import Plan, Refused, parse
from gantry_loadtest.profiles.base import Profile
from gantry_loadtest.profiles.consuming import Acknowledged, Group

Script = Callable[[str, str, str, Any], tuple[int, dict[str, Any]]]


class Scripted:
    """A gateway that answers by a script and records its requests."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[tuple[str, str, str, Any]] = []

    def call(self, name: str, method: str, path: str, json: Any = None, **more: Any) -> Answer:
        self.asked.append((name, method, path, json if json is not None else more.get("data")))
        status, body = self.script(name, method, path, json)
        return Answer(reply_of(status), status, body, 5.0)


def begun(name: str, script: Script, *words: str) -> tuple[Profile, Scripted, list[str]]:
    plan = parse([name, "--seconds", "60", *words])
    assert isinstance(plan, Plan)
    calls, faults = Scripted(script), list[str]()
    chosen: type[Profile] = importlib.import_module(
        f"gantry_loadtest.profiles.{PROFILES[name].module}"
    ).Chosen
    state = RunState(
        plan,
        chosen.readers(plan),
        lambda _state: calls,
        lambda kind, _words: faults.append(kind),
        chosen.size_of,
    )
    return chosen(state), calls, faults


def accepting(name: str, _method: str, path: str, _json: Any) -> tuple[int, dict[str, Any]]:
    """Answer as a gateway with one queue that stores everything at offset 0."""
    if name == "prepare":
        topic = path.rpartition("/")[2]
        return 200, {
            "topic": topic,
            "queues": [{"broker": "b", "queueId": 0, "minOffset": 0, "maxOffset": 0}],
        }
    if name == "last look":
        return 200, {"queues": []}
    if name == "begin":
        return 200, {"transactionId": "b.1"}
    if name in {"commit", "rollback"}:
        return 200, {"status": "committed" if name == "commit" else "rolledBack"}
    return 200, {"results": [{"broker": "b", "queueId": 0, "queueOffset": 0}]}


def pulled(body: str, offset: int = 0, queue: int = 0, **more: Any) -> dict[str, Any]:
    """Return a message as a pull returns it."""
    stored = "2026-01-01T00:00:00.000Z"
    return {
        "topic": "t", "broker": "b", "queueId": queue, "queueOffset": offset, "storeTimestamp": stored, "body": body, **more,
    }  # fmt: skip


def body_of(calls: Scripted) -> str:
    """The body of the message that was sent last."""
    sent = next(json for name, _, _, json in reversed(calls.asked) if name in {"send", "begin"})
    if isinstance(sent, bytes):
        return sent.decode()
    return (sent["message"] if "message" in sent else sent["messages"][0])["body"]


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_prepares_acts_handles_answers_and_cleans_up(name: str) -> None:
    profile, calls, faults = begun(name, accepting)
    profile.prepare(calls)
    sender = profile.state.new_sender()
    profile.act(calls, sender, 0.5)
    assert profile.state.findings.counts["acknowledged"] == 1
    assert profile.watchers()
    stored = datetime.fromtimestamp(wall_ms() / 1000 + 60, UTC).isoformat()
    message = pulled(body_of(calls), storeTimestamp=stored)
    if "pull" in profile.readers(profile.state.plan):
        profile.take_in(message)
        assert (faults, profile.state.findings.counts["delivered"]) == ([], 1)
    answer = profile.answer(profile.state.findings, profile.state.plan)
    assert len(answer) >= 1
    assert all(line and "\n" not in line for line in answer)
    assert profile.answer(Findings.over(60, 48), profile.state.plan)
    profile.clean_up(calls)
    removed = {path for call, method, path, _ in calls.asked if method == "DELETE"}
    assert len(removed) == len(profile.topics) + len(profile.groups)


def test_an_acknowledged_message_that_the_reader_passed_is_lost() -> None:
    profile, calls, faults = begun("send", accepting)
    profile.act(calls, Sender(1), 0.0)
    profile.last_look(calls, has_waited=False)
    assert (faults, profile.state.findings.counts["notSeen"]) == ([], 1)
    profile.state.progress["pull", Place((profile.topic, "b", 0))] = 1
    profile.last_look(calls, has_waited=False)
    assert faults == ["lost"]


@pytest.mark.parametrize("name", PROFILES)
def test_an_acknowledged_message_that_never_arrived_is_lost_after_the_drain(name: str) -> None:
    profile, calls, faults = begun(name, accepting)
    profile.prepare(calls)
    profile.act(calls, Sender(1), 0.0)
    sent = profile.state.history.sent(1, 0)
    assert sent is not None
    sent.due = min(sent.due, 1.0)  # long ago if it is delayed
    profile.last_look(calls, has_waited=True)
    readers = len(profile.readers(profile.state.plan))
    assert (faults, profile.state.findings.counts["notSeen"]) == (["lost"] * readers, 0)


def test_a_delayed_message_is_not_lost_before_it_is_due() -> None:
    profile, calls, faults = begun("delay", accepting)
    profile.act(calls, Sender(1), 0.0)
    profile.last_look(calls, has_waited=True)
    assert (faults, profile.state.findings.counts["notSeen"]) == ([], 1)


def test_repeated_overtaking_and_unknown_messages_are_faults() -> None:
    profile, calls, faults = begun("end-to-end", accepting)
    sender = Sender(1)
    bodies: list[str] = []
    for _ in range(3):
        profile.act(calls, sender, 0.0)
        bodies.append(body_of(calls))
    for offset, body in enumerate((bodies[1], bodies[0], bodies[0])):
        profile.take_in(pulled(body, offset))
    assert faults == ["disordered", "duplicates"]
    faults.clear()
    for offset, body in enumerate(
        ("of somebody else", profile.state.body(1, 99), "", f"{bodies[2][:8]} x y z")
    ):
        profile.take_in(pulled(body, offset))
    assert faults == ["forbidden"] * 4


def test_a_queue_out_of_offset_order_is_disordered_for_any_sender_and_without_a_key() -> None:
    profile, calls, faults = begun("send", accepting)
    bodies: list[str] = []
    for stream in (1, 2, 3):
        profile.act(calls, Sender(stream), 0.0)
        bodies.append(body_of(calls))
    profile.take_in(pulled(bodies[0], 5))
    profile.take_in(pulled(bodies[1], 4, queue=1))
    assert faults == []
    profile.take_in(pulled(bodies[2], 4))
    assert faults == ["disordered"]


def test_a_refused_message_is_forbidden_whether_it_arrives_before_or_after_the_refusal() -> None:
    taken: list[Any] = []

    def script(name: str, _method: str, _path: str, json: Any) -> tuple[int, dict[str, Any]]:
        taken.append(profile.take_in(pulled(json["messages"][0]["body"])))
        return 429, {"code": "SYSTEM_BUSY"}

    profile, calls, faults = begun("send", script)
    profile.act(calls, Sender(1), 0.0)
    assert (len(taken), faults) == (1, ["forbidden"])


def test_429_is_refused_not_failed_and_the_user_pauses_as_requested() -> None:
    profile, calls, faults = begun("send", lambda *_: (429, {"code": "SYSTEM_BUSY", "retryAfterMs": 1500}))
    sender = Sender(1)
    profile.act(calls, sender, 0.0)
    assert profile.state.findings.counts["refused"] == 1
    assert 1.0 < sender.paused_until - profile.state.now() <= 1.5
    profile.take_in(pulled(body_of(calls)))
    assert faults == ["forbidden"]


def test_a_send_without_an_answer_may_arrive_but_need_not() -> None:
    profile, calls, faults = begun("send", lambda *_: (504, {}))
    profile.act(calls, Sender(1), 0.0)
    profile.last_look(calls, has_waited=True)
    profile.take_in(pulled(body_of(calls)))
    assert faults == []
    assert profile.state.findings.counts["unknown"] == 1


def test_statuses_match_the_errors_of_the_api() -> None:
    judged = {status: reply_of(status) for status in (200, 400, 404, 429, 500, 503, 504, 507, 0)}
    assert [status for status, reply in judged.items() if reply is Reply.UNKNOWN] == [500, 504, 0]
    assert judged[429] is Reply.REFUSED
    assert judged[200] is Reply.DONE


def test_a_delayed_message_that_is_stored_before_its_time_is_early() -> None:
    profile, calls, faults = begun("delay", accepting)
    profile.act(calls, Sender(1), 0.0)
    profile.take_in(pulled(body_of(calls)))
    assert faults == ["early"]


def test_a_rolled_back_message_must_not_arrive_and_none_before_its_commit() -> None:
    profile, calls, faults = begun("transactions", accepting)
    sender = Sender(1, number=6)
    profile.act(calls, sender, 0.0)
    profile.take_in(pulled(body_of(calls), 0))
    assert faults == ["forbidden"]
    sender.number = 8
    profile.act(calls, sender, 0.0)
    profile.take_in(pulled(body_of(calls), 1))
    assert faults == ["forbidden", "early"]


def test_a_lost_producers_transaction_without_a_check_is_lost_after_the_drain() -> None:
    profile, calls, faults = begun("transactions", accepting)
    profile.act(calls, Sender(1, number=8), 0.0)
    profile.last_look(calls, has_waited=False)
    assert (faults, profile.state.findings.counts["notSeen"]) == ([], 1)
    profile.last_look(calls, has_waited=True)
    assert faults == ["lost"]


@pytest.mark.parametrize("name", PROFILES)
def test_a_body_that_changed_is_damaged_at_every_reader(name: str) -> None:
    profile, calls, faults = begun(name, accepting)
    profile.prepare(calls)
    profile.act(calls, Sender(1), 0.0)
    changed = pulled(
        body_of(calls)[:-1] + "y", storeTimestamp="2100-01-01T00:00:00Z", deliveryAttempt=1, receiptHandle="h"
    )
    if "pull" in profile.readers(profile.state.plan):
        profile.take_in(changed)
        assert faults == ["damaged"]
        faults.clear()
    for reader in set(profile.readers(profile.state.plan)) - {"pull"}:
        Group(profile.state, profile.topic, "g", reader).judge([changed])
        assert faults == ["damaged"]
        faults.clear()


def test_a_delayed_message_that_a_group_gets_before_its_time_is_early() -> None:
    profile, calls, faults = begun("soak", accepting)
    profile.act(calls, Sender(1, number=9), 0.0)
    group = Group(profile.state, profile.topic, "g", "group")
    group.judge([pulled(body_of(calls), deliveryAttempt=1, receiptHandle="h")])
    assert faults == ["early"]


def test_only_a_redelivery_after_the_acknowledgement_is_a_duplicate() -> None:
    done = Acknowledged()
    done.note(Mark(1, 0), 2)
    assert [done.is_repeated(Mark(1, 0), attempt) for attempt in (1, 2, 3)] == [False, False, True]
    assert not done.is_repeated(Mark(1, 1), 9)


def test_a_group_counts_redeliveries_and_reports_repetitions() -> None:
    def script(name: str, method: str, path: str, json: Any) -> tuple[int, dict[str, Any]]:
        return (
            (200, {"results": [{"status": "acked"}]})
            if name == "ack"
            else accepting(name, method, path, json)
        )

    profile, calls, faults = begun("receive", script)
    profile.act(calls, Sender(1), 0.0)
    group = Group(profile.state, profile.topic, "g", "group")
    given = [
        {"body": body_of(calls), "deliveryAttempt": attempt, "receiptHandle": "h"} for attempt in (1, 2, 3)
    ]
    group.judge(given[:1])
    group.judge(given[1:2])
    group.settle(calls, given[1:2])
    group.judge(given[:1])
    assert (faults, profile.state.findings.counts["redelivered"]) == ([], 2)
    group.judge(given[2:])
    assert faults == ["duplicates"]


def test_a_gateway_that_refuses_the_preparation_ends_the_run_with_its_message() -> None:
    profile, calls, _ = begun("send", lambda *_: (401, {"detail": "the token is missing"}))
    with pytest.raises(Refused, match=r"the token is missing; set GANTRY_TOKEN$"):
        profile.prepare(calls)


def test_the_knee_is_the_last_step_that_kept_up() -> None:
    plan = parse(["ramp", "--seconds", "60"])
    assert isinstance(plan, Plan)
    findings = Findings.over(60, plan.load_seconds)
    for step in range(10):
        for number in range(100 * (step + 1)):
            at = plan.load_seconds * (step + number / (100 * (step + 1))) / 10
            findings.count("intended", at)
            findings.count("acknowledged", at)
            findings.took("send", at, 10.0 if step < 6 else 4000.0)
    ramp = importlib.import_module("gantry_loadtest.profiles.ramp").Chosen
    answer = ramp.answer(findings, plan)
    assert answer[0].startswith("The knee lies at 12")  # 600 in 4.8 s
    assert len(answer) == 11


def test_the_protocol_has_the_arguments_of_profiles() -> None:
    calls: Calls = Scripted(accepting)
    assert calls.call("x", "GET", "/").is_done
