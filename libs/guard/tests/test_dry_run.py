"""Changed policies against requests of the audit log: what would be decided differently, and what cannot be decided again."""

import json

import pytest
from guarded import policy

from gantry_access.evaluation.state import AccessState
from gantry_access.formats.acl_info import write_acl
from gantry_access.model.actions import Action
from gantry_access.model.needs import AnyUser, Inner, Need, OfRecord, Open
from gantry_access.model.networks import SourceAddress
from gantry_access.model.policies import SubjectPolicies
from gantry_access.model.resources import Resource
from gantry_access.model.users import Subject, User
from gantry_chassis.machine.environment import machine
from gantry_chassis.metrics import Metrics
from gantry_guard import audit as audit_module
from gantry_guard.audit import TEXT_CHARS_MAX, Asked, Audit, requirement_text
from gantry_guard.dry_run import Unusable, main, read_lines, read_policies, requirements_of_text, try_policies

PUB = Need(Resource.parse("Topic:orders"), Action.PUB)
SUB = Need(Resource.parse("Group:billing"), Action.parse_all(["Sub", "Get"]))
HERE = SourceAddress.parse("10.0.0.5")


def policies(*texts, user="alice"):
    return SubjectPolicies(Subject(user), tuple(map(policy, texts)))


@pytest.fixture
def log(tmp_path):
    """Write an audit log as a service does: of these requests (user, needs), decided by these policies."""

    def write(*requests, by=()):
        path = tmp_path / "store.jsonl"
        environment = machine()
        audit = Audit(
            path, "store", Metrics(), wall_ms=environment.wall_ms, make_thread=environment.make_thread
        )
        state = AccessState.of([User("alice"), User("bob")], by)
        for name, *needs in requests:
            asked = Asked(name, HERE.text, "SEND_MESSAGE_V2", tuple(needs), "signature")
            verdict = state.decide(name, needs, HERE, environment.wall_ms())
            if verdict.is_allowed:
                audit.allowed(asked, verdict)
            else:
                audit.refused(asked, verdict.reason.value)
        audit.refused(Asked("alice", HERE.text, "SEND_MESSAGE_V2", way="signature"), "unmapped")
        audit.close()
        return path

    return write


def tried(path, *changed):
    return try_policies(read_lines(path, 0), changed)


@pytest.mark.parametrize(
    "required", [PUB, SUB, OfRecord(Action.PUB), AnyUser(), Inner(), Open(), Need(Resource.parse("Topic:*"), Action.LIST)]
)  # fmt: skip
def test_what_the_audit_log_says_is_read_as_what_was_required(required):
    assert requirements_of_text(requirement_text(required)) == (required,)
    both = "; ".join(map(requirement_text, (PUB, required)))
    assert requirements_of_text(both) == (PUB, required)


def test_requests_that_lose_or_gain_their_right_are_found_with_the_entry_that_decides(log):
    before = policies("Allow Pub Topic:orders")
    path = log(("alice", PUB), ("alice", PUB), ("alice", SUB), by=[before])
    after = policies("Deny All Topic:or*", "Allow Sub Group:billing")
    outcome = tried(path, after)
    assert (outcome.requests, outcome.unreadable) == (3, 0)
    found = [(one.was, one.becomes, one.resources, one.rule, one.requests) for one in outcome.changes]
    assert found == [
        ("allowed", "refused", "Pub on Topic:orders", "Custom: Deny All on Topic:or*", 2),
        ("refused", "allowed", "Sub/Get on Group:billing", "Custom: Allow Sub on Group:billing", 1),
    ]


def test_the_same_policies_change_nothing(log):
    before = policies("Allow Pub Topic:orders")
    path = log(("alice", PUB), ("alice", SUB), by=[before])
    assert tried(path, before).changes == []


def test_only_named_users_are_looked_at_and_no_wrong_signature(log):
    path = log(("alice", PUB), ("bob", PUB), by=[policies("Allow Pub Topic:orders", user="bob")])
    outcome = tried(path, policies("Deny Pub Topic:orders", user="bob"))
    assert [one.user for one in outcome.changes] == ["bob"]
    assert outcome.requests == 1


def test_the_address_counts(log):
    path = log(("alice", PUB), by=[policies("Allow Pub Topic:orders")])
    assert tried(path, policies("Allow Pub Topic:orders 10.0.0.0/8")).changes == []
    [change] = tried(path, policies("Allow Pub Topic:orders 192.168.0.0/16")).changes
    assert (change.becomes, change.rule) == ("refused", "")


def test_lines_that_are_cut_or_damaged_are_counted_and_decide_nothing(log):
    path = log(("alice", PUB), ("alice", *[PUB] * 60), by=[policies("Allow Pub Topic:orders")])
    with path.open("ab") as file:
        file.write(b'{"timeMs":1,"serv\n[]\n')
    outcome = tried(path, policies("Deny Pub Topic:orders"))
    assert len("; ".join(["Pub on Topic:orders"] * 60)) > TEXT_CHARS_MAX
    assert (len(outcome.changes), outcome.unreadable) == (1, 3)


def test_allowed_requests_that_are_not_listed_are_counted_as_undecided(log, monkeypatch):
    monkeypatch.setattr(audit_module, "ALLOWED_OF_USER_MAX", 1)
    path = log(("alice", PUB), ("alice", SUB), ("alice", SUB), by=[policies("Allow All *")])
    outcome = tried(path, policies("Allow Pub Topic:orders"))
    assert (outcome.requests, outcome.unreadable, outcome.changes) == (3, 2, [])


def test_old_lines_and_those_of_the_renamed_log(log):
    path = log(("alice", PUB), by=[policies("Allow Pub Topic:orders")])
    path.rename(path.with_name("store.jsonl.1"))
    path.write_bytes(b"")
    now_ms = machine().wall_ms()
    assert len([*read_lines(path, now_ms - 60_000)]) == 2
    assert [*read_lines(path, now_ms + 60_000)] == []


def test_a_user_without_entries_may_do_nothing(log, tmp_path):
    path = log(("alice", PUB), by=[policies("Allow Pub Topic:orders")])
    file = tmp_path / "alice.json"
    file.write_text('{"subject":"User:alice","policies":[]}')
    [change] = tried(path, read_policies(file)).changes
    assert change.becomes == "refused"


def test_policies_are_read_as_they_are_written(tmp_path):
    file = tmp_path / "alice.json"
    written = policies("Allow Pub,Sub Topic:orders 10.0.0.0/8", "Deny All Group:*")
    file.write_bytes(write_acl(written))
    assert read_policies(file) == written


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "does not hold the policies of a user as JSON"),
        ("[]", "does not hold the policies of a user as JSON"),
        ('{"policies":[]}', "is not User:name"),
        ('{"subject":"User:a","policies":[{"entries":[{"resource":"Topic:a","actions":["Fly"],"decision":"Allow"}]}]}', "Fly"),
    ],
)  # fmt: skip
def test_a_file_that_holds_no_policies_is_named(tmp_path, text, says):
    file = tmp_path / "alice.json"
    file.write_text(text)
    with pytest.raises(Unusable, match=says) as refused:
        read_policies(file)
    assert str(file) in str(refused.value)


def test_the_program_says_what_would_be_different(log, tmp_path, capsys):
    path = log(("alice", PUB), by=[policies("Allow Pub Topic:orders")])
    file = tmp_path / "alice.json"
    file.write_bytes(write_acl(policies("Deny Pub Topic:orders")))
    assert main([str(file), "--folder", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("1 of 1 requests of the last 60 minutes would be decided differently\n")
    assert "1  allowed → refused: alice from 10.0.0.5, SEND_MESSAGE_V2" in shown
    assert "needs Pub on Topic:orders; Custom: Deny Pub on Topic:orders" in shown
    assert main([str(file), "--audit", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changes"][0]["requests"] == 1


def test_the_program_refuses_in_one_line(tmp_path, capsys):
    file = tmp_path / "alice.json"
    assert main([str(file)]) == 2
    file.write_bytes(write_acl(policies("Deny Pub Topic:orders")))
    empty = tmp_path / "empty"
    assert main([str(file), "--folder", str(empty)]) == 2
    assert main([str(file), "--audit", str(tmp_path / "none.jsonl")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3
    assert "cannot read" in said[0]
    assert "name one with --audit" in said[1]
    assert "there is no audit log" in said[2]
