"""HTTP calls: names from the path, the query and the body."""

import json

import pytest

from gantry_access.model.actions import Action
from gantry_access.model.needs import Inner, Need, OfRecord, Open
from gantry_access.model.resources import Resource
from gantry_access.rights.asked import Asked
from gantry_access.rights.errors import RightsRefused
from gantry_access.rights.http_table import GATEWAY, OWN_PORTS, requirements_of_route
from gantry_wire.errors import MalformedBody


def ask(method, path, body=None, **names):
    content = b"" if body is None else json.dumps(body).encode()
    return list(requirements_of_route(GATEWAY, method, path, Asked(names, content, "c1")))


def need(kind, name, *actions):
    return Need(Resource.parse(f"{kind}:{name}"), Action.parse_all(actions))


PUB = Action.PUB
CASES = [
    ("POST", "/v1/topics/{topic}/messages", {"topic": "t"}, None, [need("TOPIC", "t", "PUB")]),
    ("POST", "/v1/topics/{topic}/groups/{group}/messages:ack", {"topic": "t", "group": "g"}, None,
        [need("TOPIC", "t", "SUB"), need("GROUP", "g", "SUB")]),
    ("GET", "/v1/topics", {}, None, [need("TOPIC", "*", "LIST")]),
    ("GET", "/v1/schedules", {}, None, [need("TOPIC", "*", "GET")]),
    ("GET", "/v1/schedules", {"topic": "t"}, None, [need("TOPIC", "t", "GET")]),
    ("DELETE", "/v1/schedules/{id}", {"id": "i"}, None, [OfRecord(PUB)]),
    ("POST", "/v1/schedules:bulkCancel", {}, {"topic": "t"}, [need("TOPIC", "t", "PUB")]),
    ("POST", "/v1/schedules:bulkMove", {"topic": "mine"}, {"key": "k", "shiftMs": 1}, [need("TOPIC", "*", "PUB")]),
    ("POST", "/v1/transactions/{id}:commit", {"id": "i", "topic": "mine"}, None, [OfRecord(PUB)]),
    ("PUT", "/v1/groups/{group}/offsets", {"group": "g"}, {"offsets": [{"topic": "t"}, {"topic": "u"}]},
        [need("GROUP", "g", "UPDATE"), need("TOPIC", "t", "UPDATE"), need("TOPIC", "u", "UPDATE")]),
    ("POST", "/v1/groups/{group}/offsets:reset", {"group": "g"}, {"topic": "t", "to": "latest"},
        [need("GROUP", "g", "UPDATE"), need("TOPIC", "t", "UPDATE")]),
    ("PUT", "/v1/definitions", {}, {"topics": [{"topic": "t"}], "groups": [{"group": "g"}]},
        [need("TOPIC", "t", "CREATE"), need("GROUP", "g", "CREATE")]),
    ("POST", "/v1/groups/{group}/deadLetters:redrive", {"group": "g"}, None, [need("GROUP", "g", "UPDATE")]),
    ("POST", "/v1/groups/{group}/deadLetters:redrive", {"group": "g"}, {"toTopic": "t"},
        [need("GROUP", "g", "UPDATE"), need("GROUP", "g", "SUB", "GET"), need("TOPIC", "t", "PUB")]),
    ("POST", "/v1/groups/{group}/deadLetters:redrive", {"group": "g"}, {"toTopic": "original"},
        [need("GROUP", "g", "UPDATE"), need("TOPIC", "*", "PUB")]),
    ("GET", "/metrics", {}, None, [need("CLUSTER", "c1", "GET")]),
    ("GET", "/health/ready", {}, None, [Open()]),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "names", "body", "expected"), CASES)
def test_the_requirements_of_a_call(method, path, names, body, expected):
    assert ask(method, path, body, **names) == expected


@pytest.mark.parametrize(
    "path", ["/v1/schedules:bulkCancel", "/v1/groups/{group}/offsets:reset", "/v1/definitions"]
)
def test_an_unreadable_body_is_malformed(path):
    method = "PUT" if path == "/v1/definitions" else "POST"
    with pytest.raises(MalformedBody):
        requirements_of_route(GATEWAY, method, path, Asked({"group": "g"}, b"[", "c1"))


def test_a_route_without_a_row_is_refused():
    with pytest.raises(RightsRefused, match="authorization context is empty"):
        ask("POST", "/health/live")


def test_a_missing_name_is_refused():
    with pytest.raises(RightsRefused, match=r"^topic is null\.$"):
        ask("GET", "/v1/messages")


def test_figures_of_a_worker_are_for_our_own_services():
    asked = Asked({}, b"", "c1")
    assert requirements_of_route(OWN_PORTS["gateway worker"], "GET", "/figures", asked) == (Inner(),)


def test_only_health_the_description_and_who_leads_are_open():
    tables = (GATEWAY, *OWN_PORTS.values())
    open_paths = {path for table in tables for (_method, path), row in table.items() if row.text == "open"}
    assert open_paths == {"/", "/docs", "/openapi.json", "/health/live", "/health/ready", "/v1/replication"}


def test_the_rights_of_own_ports_depend_on_no_body():
    """Those ports decide before they read one."""
    rows = [row for table in OWN_PORTS.values() for row in table.values()]
    assert all(row.fields_read is not None for row in rows)
