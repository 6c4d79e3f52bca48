"""/v1/tasks, and the calls that start them: bulk cancel and move, redrive; dead letters with their reasons."""

from __future__ import annotations

import asyncio

import pytest
from gateway_problem_check import check

from gantry_wire.messages.properties import format_properties
from gateway.ports.stores import PeerAway, TopicSettings

pytestmark = pytest.mark.anyio
DLQ = "%DLQ%g1"


def bury(store, count, **more):
    store.kept_topics[DLQ] = TopicSettings(DLQ, 1, 1, 6)
    for n in range(count):
        properties = {"UNIQ_KEY": f"{store.broker}-{n}", "RETRY_TOPIC": "orders"} | more
        store._put(DLQ, 0, 0, f"{n}".encode(), format_properties(properties), strict=True)


async def test_a_task_is_started_shown_and_cancelled(client, system):
    begun = (await client.post("/v1/schedules:bulkCancel", json={"topic": "orders"})).json()
    assert (begun["kind"], begun["state"], begun["done"], begun["failed"], begun["total"]) == (
        "bulkCancel", "running", 0, 0, 3,
    )  # fmt: skip
    assert (await client.get(f"/v1/tasks/{begun['id']}")).json() == begun
    assert (await client.post(f"/v1/tasks/{begun['id']}:cancel")).json()["state"] == "cancelled"
    listed = (await client.get("/v1/tasks")).json()
    assert [one["id"] for one in listed["tasks"]] == [begun["id"]]
    assert (await client.get("/v1/tasks?state=running")).json()["tasks"] == []


@pytest.mark.parametrize("task", ["none", "broker-a.7", "nobody.1", "broker-a.x"])
async def test_an_unknown_task_is_404(client, task):
    check(await client.get(f"/v1/tasks/{task}"), 404, "id")
    check(await client.post(f"/v1/tasks/{task}:cancel"), 404, "id")


async def test_a_task_on_a_broker_that_is_away_is_503(pair_client, pair):
    begun = (await pair_client.post("/v1/schedules:bulkCancel", json={"broker": "broker-b"})).json()
    assert begun["broker"] == "broker-b"
    pair.kill("broker-b")
    assert check(await pair_client.get(f"/v1/tasks/{begun['id']}"), 503)["missing"] == ["broker-b"]


async def test_a_list_waits_while_the_scheduler_has_lost_the_claims(client, system):
    begun = (await client.post("/v1/schedules:bulkCancel", json={"topic": "orders"})).json()
    system.schedulers.one.serves.clear()
    asked = asyncio.ensure_future(client.get("/v1/tasks"))
    await asyncio.sleep(0.05)
    system.schedulers.one.serves.add("broker-a")
    assert [one["id"] for one in (await asked).json()["tasks"]] == [begun["id"]]


async def test_a_list_without_a_broker_that_no_scheduler_works_for_names_it(pair_client, pair):
    for broker in ("broker-a", "broker-b"):
        await pair_client.post("/v1/schedules:bulkCancel", json={"broker": broker})
    pair.schedulers.one.serves.remove("broker-b")
    listed = (await pair_client.get("/v1/tasks")).json()
    assert ([one["broker"] for one in listed["tasks"]], listed["missing"]) == (["broker-a"], ["broker-b"])
    assert check(await pair_client.get("/v1/tasks?broker=broker-b"), 503)["missing"] == ["broker-b"]


async def test_a_task_that_may_have_started_is_not_started_again(client, system):
    system.schedulers.one.failures = [PeerAway("scheduler", True, "no answer")]
    problem = check(await client.post("/v1/schedules:bulkCancel", json={"topic": "orders"}), 504)
    assert problem["code"] == "UNKNOWN_WHETHER_STORED"
    assert not system.schedulers.one.tasks


async def test_a_task_that_certainly_did_not_start_is_started_by_the_next_scheduler(client, system):
    system.schedulers.one.failures = [PeerAway("scheduler", False, "not connected")]
    assert (await client.post("/v1/schedules:bulkCancel", json={"topic": "orders"})).status_code == 200
    assert len(system.schedulers.one.tasks) == 1


async def test_a_task_starts_at_a_broker_with_a_scheduler(pair_client, pair):
    pair.schedulers.holders["broker-a"] = None
    assert (await pair_client.post("/v1/schedules:bulkCancel", json={"topic": "orders"})).status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("bulkCancel", {}, "topic"),
        ("bulkCancel", {"topic": "a b"}, "topic"),
        ("bulkCancel", {"topic": "orders", "maxPerSecond": 0}, "maxPerSecond"),
        ("bulkMove", {"topic": "orders"}, "deliverAt"),
        ("bulkMove", {"topic": "orders", "deliverAt": 1, "shiftMs": 1}, "deliverAt"),
        ("bulkMove", {"topic": "orders", "shiftMs": 10**15}, "shiftMs"),
        ("bulkMove", {"topic": "orders", "deliverAt": "2030-01-01T00:00:00Z"}, "deliverAt"),
    ],
)
async def test_a_bad_bulk_call_is_refused_by_name(client, system, path, body, field):
    check(await client.post(f"/v1/schedules:{path}", json=body), 400, field)
    assert not system.schedulers.one.tasks


async def test_a_bulk_move_needs_a_time(client, system):
    body = {"key": "o-1", "from": "1970-01-01T00:00:01Z", "to": 9000, "shiftMs": -5000, "dryRun": True}
    assert (await client.post("/v1/schedules:bulkMove", json=body)).json()["dryRun"] is True
    (task,) = (one.definition for one in system.schedulers.one.tasks.values())
    assert (task.schedules.key, task.schedules.from_ms, task.schedules.to_ms) == ("o-1", 1000, 9000)
    assert (task.shift_ms, task.deliver_at_ms) == (-5000, None)


async def test_dead_letters_have_a_reason(client, system):
    noted = {
        "__GANTRY_DLQ_REASON": "card declined",
        "__GANTRY_DLQ_ATTEMPTS": "4",
        "__GANTRY_DLQ_CONSUMER": "c-1",
        "__GANTRY_ORIGIN": "orders:3:17",
        "ORIGIN_MESSAGE_ID": "7F00",
        "__GANTRY_SETTLED": "a:1:2:g1:1/1",
    }
    bury(system.stores["broker-a"], 1, **noted)
    (one,) = (await client.get("/v1/groups/g1/deadLetters")).json()["messages"]
    assert one["deadLetter"] == {
        "reason": "card declined", "attempts": 4, "redriven": False, "consumer": "c-1", "originTopic": "orders", "originQueueId": 3,
        "originOffset": 17, "originMessageId": "7F00",
    }  # fmt: skip
    assert "__GANTRY_SETTLED" not in one["systemProperties"]
    assert (one["body"], one["messageId"]) == ("0", "broker-a-0")


async def test_redriven_dead_letters_are_marked(client, system):
    bury(system.stores["broker-a"], 8)
    system.stores["broker-a"].redriven_letters["g1"] = [(0, 2), (4, 5), (6, 7)]
    for count in (3, 8):
        found, after = [], ""
        while after is not None:
            page = (await client.get(f"/v1/groups/g1/deadLetters?max={count}&after={after}")).json()
            found += page["messages"]
            after = page["next"]
        redriven = [one["queueOffset"] for one in found if one["deadLetter"]["redriven"]]
        assert redriven == [0, 1, 4, 6]


async def test_dead_letters_of_a_rocketmq_broker_show_their_known_fields(client, system):
    bury(system.stores["broker-a"], 1)
    (one,) = (await client.get("/v1/groups/g1/deadLetters")).json()["messages"]
    assert one["deadLetter"]["originTopic"] == "orders"


async def test_a_group_without_dead_letters_has_none_and_an_unknown_group_is_404(client):
    assert (await client.get("/v1/groups/g1/deadLetters")).json() == {
        "messages": [],
        "next": None,
        "missing": [],
    }
    check(await client.get("/v1/groups/none/deadLetters"), 404, "group")


@pytest.mark.parametrize("removing", [1, 100])
async def test_dead_letters_behind_removed_ones_are_listed(client, system, removing):
    bury(system.stores["broker-a"], 2)
    system.stores["broker-a"].removing = removing
    found, after = [], ""
    while after is not None:
        page = (await client.get(f"/v1/groups/g1/deadLetters?after={after}")).json()
        found += page["messages"]
        after = page["next"]
    assert len(found) == 2


@pytest.mark.parametrize("count", [1, 2, 5, 256])
async def test_pages_list_each_dead_letter_once(pair_client, pair, count):
    for n, store in enumerate(pair.stores.values()):
        bury(store, 4 + 3 * n)
    found, after = [], ""
    while True:
        page = (await pair_client.get(f"/v1/groups/g1/deadLetters?max={count}&after={after}")).json()
        assert len(page["messages"]) <= count
        found += page["messages"]
        after = page["next"]
        if after is None:
            break
    assert len({one["messageId"] for one in found}) == len(found) == 11


async def test_a_redrive_becomes_a_task(client, system):
    body = {
        "filter": {"type": "sql92", "expression": "a > 3"},
        "maxPerSecond": 50,
        "dryRun": True,
        "toTopic": "orders",
    }
    begun = (await client.post("/v1/groups/g1/deadLetters:redrive", json=body)).json()
    assert (begun["kind"], begun["group"], begun["toTopic"], begun["dryRun"]) == (
        "redrive",
        "g1",
        "orders",
        True,
    )
    (task,) = (one.definition for one in system.schedulers.one.tasks.values())
    assert (task.filter.type, task.filter.expression, task.max_per_second) == ("sql92", "a > 3", 50)
    assert "%RETRY%g1" not in system.stores["broker-a"].kept_topics
    assert (await client.post("/v1/groups/g1/deadLetters:redrive")).status_code == 200
    assert system.stores["broker-a"].kept_topics["%RETRY%g1"].perm == 6


@pytest.mark.parametrize(
    ("group", "body", "status", "field"),
    [
        ("none", {}, 404, "group"),
        ("g1", {"toTopic": "none"}, 404, "toTopic"),
        ("g1", {"toTopic": "SCHEDULE_TOPIC_XXXX"}, 403, "toTopic"),
        ("g1", {"maxPerSecond": -1}, 400, "maxPerSecond"),
        ("g1", {"filter": {"type": "sql92", "expression": "a >"}}, 422, "filter.expression"),
        ("g1", {"filter": {"type": "class", "expression": "a"}}, 400, "filter.type"),
        ("g1", {"filter": {"type": "sql92", "expression": "(" * 65_000}}, 400, "filter.expression"),
    ],
)
async def test_a_bad_redrive_is_refused_by_name(client, system, group, body, status, field):
    check(await client.post(f"/v1/groups/{group}/deadLetters:redrive", json=body), status, field)
    assert not system.schedulers.one.tasks
