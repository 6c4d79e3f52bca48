"""Every decision is counted; the file names who, what and why, and never a secret."""

import json
import time

import pytest
from guarded import NOW_MS, Guarded, connected, policy, signed, table

from gantry_access.evaluation.rules import Rule
from gantry_access.evaluation.verdicts import Reason, Verdict
from gantry_access.model.actions import Action
from gantry_access.model.needs import AnyUser, Inner, Need, OfRecord
from gantry_access.model.policies import PolicyType
from gantry_access.model.resources import Resource
from gantry_chassis.machine.environment import machine
from gantry_chassis.metrics import Metrics
from gantry_guard import audit as audit_module
from gantry_guard import audit_file
from gantry_guard.audit import Asked, Audit, requirement_text
from gantry_guard.dry_run import requirements_of_text

ASKED = Asked(
    "alice", "10.0.0.5", "SEND_MESSAGE_V2", (Need(Resource.topic("orders"), Action.PUB),), "signature"
)
CLAIMED = ASKED._replace(way="")
"""Of a client that did not prove its user."""


class Wall:
    def __init__(self):
        self.ms = NOW_MS

    def __call__(self):
        return self.ms


def opened(path, wall=None):
    metrics = Metrics()
    audit = Audit(path, "store", metrics, wall_ms=wall or Wall(), make_thread=machine().make_thread)
    return audit, metrics


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def allowed_by(text):
    entry = policy(text)
    return Verdict(Reason.ALLOWED, (Rule(entry.actions.permitted, (), True, PolicyType.CUSTOM, entry),))


def test_a_refusal_is_one_line(tmp_path):
    audit, _ = opened(tmp_path / "audit")
    audit.refused(ASKED, "no_match")
    audit.close()
    assert lines(tmp_path / "audit") == [
        {
            "timeMs": NOW_MS, "service": "store", "decision": "refused", "user": "alice", "way": "signature", "address": "10.0.0.5", "request": "SEND_MESSAGE_V2",
            "resources": "Pub on Topic:orders", "reason": "no_match",
        }
    ]  # fmt: skip


def test_allowed_requests_are_counted_by_what_decided_them(tmp_path):
    audit, _ = opened(tmp_path / "audit")
    first, second = allowed_by("Allow Pub Topic:orders"), allowed_by("Allow All *")
    for verdict in (first, first, second, first):
        audit.allowed(ASKED, verdict)
    audit.close()
    found = [(line["rule"], line.get("count", 1)) for line in lines(tmp_path / "audit")]
    assert found == [("Custom: Allow Pub on Topic:orders", 3), ("Custom: Allow All on *", 1)]


def test_many_kinds_of_allowed_requests_are_written_early(tmp_path, monkeypatch):
    monkeypatch.setattr(audit_module, "ALLOWED_MAX", 3)
    audit, _ = opened(tmp_path / "audit")
    for number in range(10):
        audit.allowed(ASKED._replace(user=f"user-{number}"), Verdict(Reason.SUPER_USER))
        assert len(audit._allowed) <= 3
    audit.close()
    assert [line["user"] for line in lines(tmp_path / "audit")] == [f"user-{n}" for n in range(10)]


def test_a_user_with_a_right_on_a_prefix_writes_a_bounded_number_of_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(audit_module, "ALLOWED_MAX", 2 * audit_module.ALLOWED_OF_USER_MAX)
    audit, _ = opened(tmp_path / "audit")
    verdict = allowed_by("Allow Pub Topic:x*")
    for number in range(10_000):
        needed = (Need(Resource.topic(f"x{number}"), Action.PUB),)
        audit.allowed(ASKED._replace(required=needed), verdict)
    audit.allowed(ASKED._replace(user="bob"), verdict)
    audit.flush()
    audit.allowed(ASKED, verdict)
    audit.close()
    found = lines(tmp_path / "audit")
    listed = audit_module.ALLOWED_OF_USER_MAX
    assert len(found) == listed + 3
    others = [line for line in found if line["reason"] == "not_listed"]
    assert [(line["user"], line["count"]) for line in others] == [("alice", 10_000 - listed)]
    assert (found[-2]["user"], found[-2]["reason"]) == ("bob", "allowed")
    assert (found[-1]["user"], found[-1]["reason"]) == ("alice", "allowed"), "counting begins again"


def test_a_flood_of_refusals_is_cut_and_counted(tmp_path):
    wall = Wall()
    audit, metrics = opened(tmp_path / "audit", wall)
    for _ in range(1000):
        audit.refused(ASKED, "no_match")
    wall.ms += 1000
    audit.refused(ASKED, "no_match")
    audit.close()
    found = lines(tmp_path / "audit")
    assert len(found) == audit_module.REFUSALS_PER_SECOND_MAX + 2
    assert [line["count"] for line in found if line["reason"] == "not_listed"] == [900]
    counted = next(one for one in metrics.shown() if one.name == "access_requests")
    assert dict(counted.samples)[("no_match",)] == (1001,)


def of_strangers(path):
    """Kinds of requests, in the order in which they came first, with their count over all lines."""
    found = {}
    for line in lines(path):
        kind = *(line.get(part, "") for part in ("address", "user", "request")), line["reason"]
        found[kind] = found.get(kind, 0) + line.get("count", 1)
    return [(*kind, count) for kind, count in found.items()]


def test_what_strangers_are_refused_is_counted_in_a_file_of_its_own(tmp_path):
    audit, metrics = opened(tmp_path / "audit")
    nobody = CLAIMED._replace(user="")
    for _ in range(3):
        audit.refused(nobody, "no_user")
        audit.refused(CLAIMED, "wrong_signature")
    audit.refused(CLAIMED._replace(user="bob"), "wrong_signature")
    audit.refused(nobody, "not_inner")
    audit.refused(ASKED, "not_inner")
    audit.close()
    assert of_strangers(tmp_path / "audit.strangers") == [
        ("10.0.0.5", "", "SEND_MESSAGE_V2", "no_user", 3),
        ("10.0.0.5", "alice", "SEND_MESSAGE_V2", "wrong_signature", 3),
        ("10.0.0.5", "bob", "SEND_MESSAGE_V2", "wrong_signature", 1),
        ("10.0.0.5", "", "SEND_MESSAGE_V2", "not_inner", 1),
    ]
    assert len(lines(tmp_path / "audit.strangers")) == 6, (
        "the first one of a kind, and the count of the others"
    )
    assert (tmp_path / "audit.strangers").stat().st_mode & 0o777 == 0o600
    assert [line["reason"] for line in lines(tmp_path / "audit")] == ["not_inner"]
    counted = next(one for one in metrics.shown() if one.name == "access_requests")
    assert dict(counted.samples)[("wrong_signature",)] == (4,)


def test_the_first_of_a_kind_is_written_before_the_process_is_killed(tmp_path):
    audit, _ = opened(tmp_path / "audit")
    audit.refused(CLAIMED, "wrong_signature")
    begin_s = time.monotonic()
    while not lines(tmp_path / "audit.strangers"):
        assert time.monotonic() - begin_s < 9
        time.sleep(0.005)
    audit.close()
    assert len(lines(tmp_path / "audit.strangers")) == 1


def test_one_address_does_not_hide_the_others_and_all_addresses_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(audit_module, "STRANGERS_MAX", 10)
    monkeypatch.setattr(audit_module, "STRANGERS_OF_ADDRESS_MAX", 2)
    audit, _ = opened(tmp_path / "audit")
    for number in range(50):
        audit.refused(CLAIMED._replace(user=f"u{number}"), "wrong_signature")
    for number in range(50):
        audit.refused(Asked("", f"10.0.1.{number}", "7"), "no_user")
    assert len(audit._strangers) <= 11
    audit.close()
    found = of_strangers(tmp_path / "audit.strangers")
    assert [line for line in found if line[0] == "10.0.0.5"] == [
        ("10.0.0.5", "u0", "SEND_MESSAGE_V2", "wrong_signature", 1),
        ("10.0.0.5", "u1", "SEND_MESSAGE_V2", "wrong_signature", 1),
        ("10.0.0.5", "", "", "not_listed", 48),
    ]
    assert ("", "", "", "not_listed", 43) in found
    assert sum(line[-1] for line in found) == 100
    assert audit._strangers == audit._kinds_of == {}


REFUSED_STRANGERS = 1_000_000


def test_a_flood_of_strangers_pushes_no_line_of_a_user_out_of_the_kept_files(tmp_path, monkeypatch):
    monkeypatch.setattr(audit_file, "FILE_BYTES_MAX", 1024 * 1024)
    wall = Wall()
    audit, metrics = opened(tmp_path / "audit", wall)
    audit.changed(ASKED._replace(request="AUTH_UPDATE_USER"), "before", "after")
    audit.refused(ASKED, "no_match")
    for number in range(REFUSED_STRANGERS):
        address = f"10.{number % 200}.{number % 199}.1"
        audit.refused(Asked(f"user-{number}", address, str(number % 1000)), "wrong_signature")
        if number % 1000 == 0:  # a thousand a second
            wall.ms += 1000
        if number % 10_000 == 0:
            audit.flush()
            while audit._strangers_writer._lines:  # a flood that the disk keeps up with: nothing is dropped
                time.sleep(0.001)
    audit.close()
    files = [*tmp_path.iterdir()]
    kept = [line for file in files if "strangers" not in file.name for line in lines(file)]
    assert [line["decision"] for line in kept] == ["changed", "refused"]
    assert (tmp_path / "audit.strangers.1").exists(), "the flood has filled its own file"
    assert sum(file.stat().st_size for file in files) < 2 * (audit_file.FILE_BYTES_MAX + 1024 * 1024)
    assert audit.dropped == 0
    counted = next(one for one in metrics.shown() if one.name == "access_requests")
    assert dict(counted.samples)[("wrong_signature",)] == (REFUSED_STRANGERS,)


def test_a_change_says_what_was_before_and_after(tmp_path):
    audit, _ = opened(tmp_path / "audit")
    audit.changed(ASKED._replace(request="AUTH_UPDATE_USER"), '{"status":"enable"}', '{"status":"disable"}')
    audit.close()
    (line,) = lines(tmp_path / "audit")
    assert (line["decision"], line["before"], line["after"]) == (
        "changed",
        '{"status":"enable"}',
        '{"status":"disable"}',
    )


def test_a_full_queue_drops_lines_and_counts_them(tmp_path, monkeypatch):
    monkeypatch.setattr(audit_file, "WAITING_BYTES_MAX", 0)
    audit, metrics = opened(tmp_path / "audit")
    audit.refused(ASKED, "no_match")
    audit.close()
    assert audit.dropped == 1
    assert next(one for one in metrics.shown() if one.name == "access_audit_dropped").samples == [
        ((), (1.0,))
    ]
    assert lines(tmp_path / "audit") == []


def test_the_file_is_private_and_is_moved_aside_when_it_is_full(tmp_path, monkeypatch):
    path = tmp_path / "audit"
    audit, _ = opened(path)
    audit.refused(ASKED, "no_match")
    audit.close()
    assert path.stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(audit_file, "FILE_BYTES_MAX", 1)
    audit, _ = opened(path)
    audit.refused(ASKED._replace(user="bob"), "no_match")
    audit.close()
    assert [line["user"] for line in lines(path)] == ["bob"]
    assert [line["user"] for line in lines(tmp_path / "audit.1")] == ["alice"]


def test_a_file_that_was_moved_away_is_made_again(tmp_path):
    path = tmp_path / "audit"
    audit, _ = opened(path)
    path.rename(tmp_path / "elsewhere")
    audit.refused(ASKED, "no_match")
    audit.close()
    assert len(lines(path)) == 1


def test_a_folder_that_cannot_be_written_is_an_error_of_the_start(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        opened(tmp_path / "missing" / "audit")


def test_without_a_file_it_counts_only():
    audit, metrics = opened(None)
    audit.allowed(ASKED, Verdict(Reason.SUPER_USER))
    audit.refused(ASKED, "no_match")
    audit.changed(ASKED, "", "")
    audit.close()
    counted = next(one for one in metrics.shown() if one.name == "access_requests")
    assert {labels[0] for labels, (number,) in counted.samples if number} == {"super_user", "no_match"}


def test_requirements_in_words():
    assert requirement_text(OfRecord(Action.SUB)) == "Sub on the topic of the record"
    assert requirement_text(Inner()) == "Inner"
    assert requirement_text(AnyUser()) == "AnyUser"
    assert (
        requirement_text(Need(Resource.parse("Topic:a*"), Action.SUB | Action.GET)) == "Sub/Get on Topic:a*"
    )


@pytest.mark.anyio
async def test_a_hostile_name_stays_one_line_and_is_cut(tmp_path):
    guarded = Guarded(table(), file=tmp_path / "audit")
    names = ['x\n{"decision":"allowed"}', "y" * 5000, "\u2028\ud800"]
    async with connected(guarded.receive) as connection:
        for name in names[:2]:
            await connection.request(310, {**signed({"b": "t"}), "AccessKey": name})
    guarded.audit.close()
    found = lines(tmp_path / "audit.strangers")
    assert [line["user"] for line in found] == [names[0], "y" * audit_module.TEXT_CHARS_MAX]
    assert lines(tmp_path / "audit") == []


@pytest.mark.parametrize("decision", ["allowed", "refused"])
def test_of_many_resources_the_first_ones_are_kept_and_listed(tmp_path, decision):
    audit, _ = opened(tmp_path / "audit")
    needs = tuple(Need(Resource.topic(f"t{number}"), Action.SUB) for number in range(5000))
    asked = ASKED._replace(required=needs)
    if decision == "allowed":
        audit.allowed(asked, allowed_by("Allow All *"))
        ((kept, _),) = audit._allowed
        assert len(kept.required) == audit_module.RESOURCES_MAX + 1
    else:
        audit.refused(asked, "no_match")
    audit.close()
    (line,) = lines(tmp_path / "audit")
    listed = line["resources"].split("; ")
    assert listed[0] == "Sub on Topic:t0"
    assert (len(listed), listed[-1]) == (audit_module.RESOURCES_MAX + 1, "…")


def test_a_cut_list_is_not_decided_again():
    text = audit_module._resources(tuple(Need(Resource.topic(f"t{n}"), Action.SUB) for n in range(17)))
    with pytest.raises(ValueError, match="not a requirement"):
        requirements_of_text(text)
    whole = tuple(Need(Resource.topic(f"t{n}"), Action.SUB) for n in range(16))
    assert requirements_of_text(audit_module._resources(whole)) == whole
