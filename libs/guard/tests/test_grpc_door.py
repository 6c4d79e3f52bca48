"""The door of a gRPC port: signatures as official clients make them, and everything that HTTP's door takes."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from guarded import NOW_MS, SECRET, Clock, policy, table, user

from gantry_access.entries.contents import policies_entry
from gantry_access.model.policies import SubjectPolicies
from gantry_access.model.users import Subject, UserStatus
from gantry_access.rights.grpc_table import GrpcAsked
from gantry_access.signatures.signing_key import SigningKey
from gantry_chassis.http.authorizing import Denial
from gantry_chassis.machine.environment import machine
from gantry_chassis.metrics import Metrics
from gantry_guard.audit import Audit
from gantry_guard.certificate_users import CertificateUsers
from gantry_guard.cluster_keys import ClusterKeys
from gantry_guard.failures import FailureLimits
from gantry_guard.grpc_door import GrpcDoor
from gantry_guard.http_callers import Callers
from gantry_guard.http_door import HttpDoor
from gantry_guard.inner_http import InnerHttp
from gantry_guard.refusals import Refusals

KEYS = ClusterKeys({"k1": bytes(range(32))})
NOW = datetime.fromtimestamp(NOW_MS / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
SEND, T = "SendMessage", GrpcAsked(("t",))


def door_of(access=None, *, is_permissive=False, tls_users=False, needs_token_when_off=False):
    access = access or table("Allow Pub Topic:t")
    audit = Audit(None, "t", Metrics(), wall_ms=lambda: NOW_MS, make_thread=machine().make_thread)
    failures = FailureLimits(Clock())
    callers = Callers(access, failures, lambda: NOW_MS, None, CertificateUsers(access, is_on=tls_users))
    http = HttpDoor(
        {}, access, "c1", callers, InnerHttp(KEYS.inner, lambda: NOW_MS),
        Refusals(audit, None, is_permissive=is_permissive), lambda: NOW_MS,
        needs_token_when_off=needs_token_when_off,
    )  # fmt: skip
    return GrpcDoor(http, access, failures, lambda: NOW_MS)


def signed(name="alice", secret=SECRET, date=NOW, *, upper=False):
    signature = SigningKey(secret).digest(date.encode()).hex()
    text = f"MQv2-HMAC-SHA1 Credential={name}, SignedHeaders=x-mq-date-time, Signature={signature.upper() if upper else signature}"
    return {b"authorization": text.encode(), b"x-mq-date-time": date.encode()}


def asked(door, headers, method=SEND, what=T, name=""):
    return door.admit(method, what, headers, "10.0.0.1", name)


def status(found):
    return found.status if isinstance(found, Denial) else 200


@pytest.mark.parametrize("headers", [signed(), signed(upper=True), signed("alice/region/service")])
def test_a_signature_proves_its_user(headers):
    caller = asked(door_of(), headers)
    assert (caller.user, caller.way) == ("alice", "signature")


def test_a_right_that_is_missing_is_403_and_names_the_topic():
    denial = asked(door_of(), signed(), what=GrpcAsked(("other",)))
    assert denial.status == 403
    assert "Topic:other" in denial.words


@pytest.mark.parametrize(
    "headers",
    [
        {},
        signed(secret="wrong"),
        signed("mallory"),
        signed() | {b"x-mq-date-time": b"20200101T000000Z"},
        {b"authorization": signed()[b"authorization"]},
        {b"authorization": b"MQv2-HMAC-SHA1 x", b"x-mq-date-time": b"d"},
        {b"authorization": b"MQv2-HMAC-SHA1 Credential=, SignedHeaders=x-mq-date-time, Signature=", b"x-mq-date-time": NOW.encode()},
        {b"authorization": b"Bearer gantry_nothing"},
    ],
)  # fmt: skip
def test_who_proves_nothing_is_401(headers):
    assert status(asked(door_of(), headers)) == 401


def test_an_unknown_user_and_a_wrong_signature_get_one_text():
    door = door_of()
    assert asked(door, signed("mallory")) == asked(door, signed(secret="wrong"))


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        (datetime.fromtimestamp(NOW_MS / 1000 + 13 * 3600, UTC), 200),
        (datetime.fromtimestamp(NOW_MS / 1000 - 12 * 3600, UTC), 200),
        (datetime.fromtimestamp(NOW_MS / 1000 - 24 * 3600, UTC), 401),
    ],
)
def test_an_old_signature_proves_nothing(date, expected):
    assert status(asked(door_of(), signed(date=date.strftime("%Y%m%dT%H%M%SZ")))) == expected


def test_guesses_are_limited():
    door = door_of()
    for _ in range(100):
        asked(door, signed(secret="wrong"))
    assert status(asked(door, signed())) == 401


def test_a_secret_proves_its_user_as_over_http():
    header = b"Basic " + base64.b64encode(f"alice:{SECRET}".encode())
    assert asked(door_of(), {b"authorization": header}).way == "secret"


def test_a_certificate_proves_its_user_where_nothing_else_is_given():
    door = door_of(tls_users=True)
    empty = {
        b"authorization": b"MQv2-HMAC-SHA1 Credential=, SignedHeaders=x-mq-date-time, Signature=",
        b"x-mq-date-time": NOW.encode(),
    }
    for headers in ({}, empty):
        assert asked(door, headers, name="alice").way == "certificate"
    assert status(asked(door, signed(secret="wrong"), name="alice")) == 401
    assert status(asked(door_of(), {}, name="alice")) == 401


def test_a_request_without_a_name_is_refused():
    assert status(asked(door_of(), signed(), what=GrpcAsked())) == 403


def test_before_users_are_read_nothing_is_decided():
    door = door_of(table(is_complete=False))
    assert [status(asked(door, headers)) for headers in ({}, signed())] == [503, 503]


def test_the_permissive_mode_lets_pass():
    door = door_of(is_permissive=True)
    assert asked(door, {}).is_permitted
    assert asked(door, signed(secret="wrong")).is_permitted
    assert asked(door, signed(), what=GrpcAsked(("other",))).user == "alice"
    assert asked(door, signed(), what=GrpcAsked()).user == "alice"


def test_a_proven_user_without_a_right_needs_it_where_a_token_is_set():
    door = door_of(is_permissive=True, needs_token_when_off=True)
    assert status(asked(door, signed(), what=GrpcAsked(("other",)))) == 403
    assert asked(door, {}).is_permitted


def test_a_disabled_user_is_refused():
    access = table(users=[user(status=UserStatus.DISABLE)])
    access.take([policies_entry(SubjectPolicies(Subject("alice"), (policy("Allow Pub Topic:t"),)), 1)])
    assert status(asked(door_of(access), signed())) in (401, 403)
