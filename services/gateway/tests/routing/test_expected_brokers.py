"""A gateway that started while a broker was away never reports its messages as nonexistent, but 503 or `missing`."""

from __future__ import annotations

import pytest
from gateway_problem_check import check

from gantry_wire.messages.ids import offset_message_id, pack_host
from gateway.ports.stores import PeerAway
from gateway.routing.queue_lists import holders_in

pytestmark = pytest.mark.anyio
UNIQUE = "7F0000010A1B00000000000012345678"
ON_A = offset_message_id(pack_host("127.0.0.1", 10911), 0)
ONE = {"messages": [{"body": "x", "broker": "broker-a"}]}
RESET = {"offsets": [{"topic": "orders", "broker": "broker-a", "queueId": 0, "offset": 0}]}


@pytest.fixture
async def late(pair, pair_client, connect):
    """A client of a gateway that never saw broker-a, which holds queues of a topic."""
    assert (await pair_client.put("/v1/topics/orders", json={})).status_code == 200
    pair.kill("broker-a")
    async with connect(pair.gateway()) as http:
        yield http


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", f"/v1/transactions/broker-a.{UNIQUE}", None),
        ("POST", f"/v1/transactions/broker-a.{UNIQUE}:commit", None),
        ("GET", "/v1/transactions?broker=broker-a", None),
        ("GET", f"/v1/messages/{ON_A}", None),
        ("GET", f"/v1/messages/{ON_A}/timeline", None),
        ("GET", f"/v1/messages/{UNIQUE}/timeline?topic=orders", None),
        ("GET", f"/v1/messages/{UNIQUE}?topic=orders", None),
        ("PATCH", "/v1/schedules/m1", {"delayMs": 5000}),
        ("DELETE", "/v1/schedules/m1", None),
        ("GET", "/v1/schedules?broker=broker-a", None),
        ("GET", "/v1/tasks/broker-a.0", None),
        ("POST", "/v1/tasks/broker-a.0:cancel", None),
        ("GET", "/v1/tasks?broker=broker-a", None),
        ("POST", "/v1/topics/orders/messages", ONE),
        ("GET", "/v1/topics/orders/queues/broker-a/0/messages", None),
        ("GET", "/v1/brokers/broker-a/settings", None),
        ("GET", "/v1/groups/nobody", None),
        ("PUT", "/v1/groups/g1/offsets", RESET),
    ],
)
async def test_a_message_that_may_be_on_a_broker_that_is_away_is_503_and_names_it(late, method, path, body):
    problem = check(await late.request(method, path, json=body), 503)
    assert (problem["retryable"], problem["missing"]) == (True, ["broker-a"])


@pytest.mark.parametrize(
    "path",
    [
        "/v1/schedules",
        "/v1/parked",
        "/v1/transactions",
        "/v1/groups/g1/lag?topic=orders",
        "/v1/groups",
        "/v1/topics",
        "/v1/topics/orders",
        "/v1/tasks",
        "/v1/cluster",
        "/v1/groups/g1/deadLetters",
    ],
)
async def test_lists_name_the_broker_that_is_away(late, path):
    answer = await late.get(path)
    assert (answer.status_code, answer.json()["missing"]) == (200, ["broker-a"])


async def test_brokers_that_are_away_are_shown_without_unknown_fields(late):
    brokers = (await late.get("/v1/brokers")).json()["brokers"]
    shown = [(one["broker"], one["alive"], one["address"]) for one in brokers]
    assert shown == [("broker-a", False, ""), ("broker-b", True, "127.0.0.1:10921")]
    assert [part["brokers"] for part in (await late.get("/v1/cluster")).json()["clusters"]] == [["broker-b"]]


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (f"/v1/transactions/nobody.{UNIQUE}", "QUERY_NOT_FOUND"),
        ("/v1/tasks/nobody.0", "QUERY_NOT_FOUND"),
        ("/v1/schedules?broker=nobody", "BROKER_NOT_EXIST"),
        ("/v1/tasks?broker=nobody", "BROKER_NOT_EXIST"),
        ("/v1/brokers/nobody/settings", "BROKER_NOT_EXIST"),
    ],
)
async def test_an_unknown_broker_is_404_everywhere(late, path, code):
    assert check(await late.get(path), 404)["code"] == code


async def test_a_send_to_an_unknown_broker_is_404(late):
    sent = {"messages": [{"body": "x", "broker": "nobody"}]}
    check(await late.post("/v1/topics/orders/messages", json=sent), 404, "messages[0].broker")


async def test_once_it_is_back_the_answers_are_definite(late, pair):
    check(await late.get(f"/v1/messages/{ON_A}"), 503)
    pair.registered.add("broker-a")
    pair.stores["broker-a"].away = None
    check(await late.get(f"/v1/messages/{ON_A}"), 404, "id")
    check(await late.get("/v1/groups/nobody"), 404, "group")
    check(await late.delete("/v1/schedules/m1"), 404, "id")
    assert (await late.get("/v1/groups")).json()["missing"] == []


async def test_a_broker_that_no_list_names_any_more_is_forgotten(late, pair):
    check(await late.get("/v1/schedules?broker=broker-a"), 503)
    pair.kept_values.clear()
    pair.clocks.advance(10)
    check(await late.get("/v1/schedules?broker=broker-a"), 404, "broker")


async def test_while_the_expected_brokers_are_unknown_nothing_is_404(pair, connect, monkeypatch):
    async def silent(_namespace):
        raise PeerAway("nameservers", True, "no answer")

    monkeypatch.setattr(pair, "values", silent)
    async with connect(pair.gateway()) as http:
        check(await http.get(f"/v1/messages/{ON_A}"), 503)
        check(await http.get("/v1/tasks/nobody.0"), 503)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("broker-a:8;broker-b:4", {"broker-a", "broker-b"}),
        ("broker-a:0;b:1;", {"b"}),
        ("nonsense", set()),
        ("", set()),
        ("a:b:3", {"a:b"}),
    ],
)
def test_a_list_names_the_brokers_with_queues(text, names):
    assert holders_in(text) == names
