"""The door of HTTP ports of other services: as authorizer of the chassis' server, with their rows of rights."""

from __future__ import annotations

import base64

import pytest
from guarded import validators_of

from gantry_access.entries.contents import policies_entry, user_entry
from gantry_access.entries.table import AccessTable
from gantry_access.model.actions import Action
from gantry_access.model.policies import Decision, PolicyEntry, SubjectPolicies
from gantry_access.model.resources import Resource
from gantry_access.model.users import Subject, User, UserType
from gantry_access.rights.http_table import GATEWAY, OWN_PORTS
from gantry_access.secrets.hidden_text import HiddenText
from gantry_chassis.http.authorizing import Incoming
from gantry_chassis.machine.environment import machine
from gantry_chassis.metrics import Metrics
from gantry_chassis.start_refusal import StartRefused
from gantry_guard.audit import Audit
from gantry_guard.certificate_users import CertificateUsers
from gantry_guard.cluster_keys import ClusterKeys
from gantry_guard.failures import FailureLimits
from gantry_guard.http_callers import Callers
from gantry_guard.http_door import ADMITTED, HttpDoor
from gantry_guard.inner_http import InnerHttp
from gantry_guard.refusals import Refusals

KEYS = ClusterKeys({"k": b"k" * 32})
NOW_MS = 1_700_000_000_000


def made(
    port="broker-store", *users, is_permissive=False, tls_users=False, validators=(), file=None, **parts
):
    table = AccessTable(KEYS.sealing)
    for number, (name, kind, actions) in enumerate(users):
        sealed = KEYS.sealing.seal(name, HiddenText(f"secret of {name}"), bytes([number]) * 12)
        table.take([user_entry(User(name, kind, secrets=(sealed,)), 1)])
        entry = PolicyEntry(Resource.parse("Cluster:c1"), Action.parse_all(actions), Decision.ALLOW)
        table.take([policies_entry(SubjectPolicies(Subject(name), (entry,)), 1)])
    table.is_complete = True
    metrics = Metrics()
    audit = Audit(file, "store", metrics, wall_ms=lambda: NOW_MS, make_thread=machine().make_thread)
    certificates = CertificateUsers(table, is_on=tls_users)
    callers = Callers(table, FailureLimits(lambda: 0.0), lambda: NOW_MS, None, certificates)
    inner = InnerHttp(KEYS.inner, lambda: NOW_MS)
    refusals = Refusals(audit, validators_of(validators, metrics), is_permissive=is_permissive)
    rows = GATEWAY if port == "gateway" else OWN_PORTS[port]
    return HttpDoor(rows, table, "c1", callers, inner, refusals, lambda: NOW_MS, **parts), inner


def asks(method, path, header=b"", certificate=None, **others):
    headers = {name.replace("_", "-").encode(): value for name, value in others.items()}
    if header:
        headers[b"authorization"] = header
    return Incoming(method, path, headers, {}, {}, "127.0.0.1", certificate)


def of(name):
    return b"Basic " + base64.b64encode(f"{name}:secret of {name}".encode())


def test_the_routes_of_a_port_are_decided_by_their_rows():
    door, _inner = made(
        "broker-store", ("reader", UserType.NORMAL, ["Get"]), ("root", UserType.SUPER, ["Get"])
    )
    assert door.authorize(asks("GET", "/health/live")) is None
    assert door.authorize(asks("GET", "/metrics")).status == 401
    assert door.authorize(asks("GET", "/metrics", of("reader"))) is None
    refused = door.authorize(asks("POST", "/snapshots", of("reader")))
    assert (refused.status, refused.words) == (
        403,
        "User:reader has no permission to access Cluster:c1 from 127.0.0.1, no matched policies.",
    )
    assert door.authorize(asks("POST", "/snapshots", of("root"))) is None


def test_what_only_services_may_ask_is_refused_to_a_super_user():
    door, inner = made("gateway worker", ("root", UserType.SUPER, ["All"]))
    assert door.authorize(asks("GET", "/figures", of("root"))).status == 403
    assert door.authorize(asks("GET", "/figures", inner.header("GET /figures"))) is None
    assert door.authorize(asks("GET", "/figures", inner.header("GET /health/live"))).status == 401


def test_a_route_without_a_row_is_refused_at_the_start_and_at_each_call():
    door, _inner = made("nameserver", ("root", UserType.SUPER, ["All"]))
    with pytest.raises(StartRefused, match="POST /snapshots"):
        door.demand_routes([("GET", "/metrics"), ("POST", "/snapshots")])
    assert door.authorize(asks("POST", "/snapshots", of("root"))).status == 403


def test_an_admission_by_a_known_head_grants_nothing_more():
    assert ADMITTED.of_record("orders") is None, "it identifies no record"
    assert ADMITTED.also([]).status == 403


def test_a_client_without_an_address_has_no_network():
    door, _inner = made("broker-store", ("reader", UserType.NORMAL, ["Get"]))
    assert door.authorize(asks("GET", "/metrics", of("reader"))._replace(address="")) is None
    assert door.source_of("no address").version == 0
