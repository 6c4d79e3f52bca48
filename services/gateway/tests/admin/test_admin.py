"""Topics, groups, offsets, messages, brokers, definitions and health over in-memory ports."""

from __future__ import annotations

import asyncio

import pytest
from gateway_problem_check import check

from gateway.ports.stores import PeerAway, StoreRefused

pytestmark = pytest.mark.anyio


async def send(client, body="x", **fields):
    answer = await client.post("/v1/topics/orders/messages", json={"messages": [{"body": body, **fields}]})
    assert answer.status_code == 200, answer.text
    return answer.json()["results"][0]


async def test_a_topic_is_created_on_every_broker_and_nameserver(pair_client, pair):
    answer = await pair_client.put("/v1/topics/new", json={"readQueues": 8, "writeQueues": 8, "perm": "rw"})
    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "topic": "new",
        "readQueues": 8,
        "writeQueues": 8,
        "perm": "rw",
        "messageType": None,
        "brokers": ["broker-a", "broker-b"],
    }
    assert all("new" in store.kept_topics for store in pair.stores.values())
    assert pair.kept_values["ORDER_TOPIC_CONFIG", "new"] == "broker-a:8;broker-b:8"
    assert "gantry.route.new" in pair.hints
    shown = (await pair_client.get("/v1/topics/new")).json()
    assert (shown["topic"], shown["perm"], len(shown["queues"]), shown["missing"]) == ("new", "rw", 16, [])
    assert shown["queues"][0] == {"broker": "broker-a", "queueId": 0, "minOffset": 0, "maxOffset": 0}


async def test_the_message_type_of_a_topic_is_shown_listed_and_removed_again(pair_client, pair):
    await pair_client.put("/v1/topics/new", json={"messageType": "PRIORITY"})
    assert pair.stores["broker-a"].kept_topics["new"].message_type == "PRIORITY"
    assert (await pair_client.get("/v1/topics/new")).json()["messageType"] == "PRIORITY"
    listed = (await pair_client.get("/v1/topics")).json()["topics"]
    assert {one["topic"]: one["messageType"] for one in listed}["new"] == "PRIORITY"
    assert (await pair_client.put("/v1/topics/new", json={"messageType": "priority"})).status_code == 400
    await pair_client.put("/v1/topics/new")
    assert (await pair_client.get("/v1/topics/new")).json()["messageType"] is None


async def test_an_empty_body_creates_a_topic_with_defaults(client):
    answer = await client.put("/v1/topics/new")
    assert (answer.status_code, answer.json()["readQueues"]) == (200, 8)


async def test_a_missing_broker_is_named_and_the_call_may_be_repeated(pair, connect):
    gateway = pair.gateway()
    async with connect(gateway) as client:
        await client.get("/v1/topics/orders")
        pair.stores["broker-b"].away = PeerAway("broker-b", False, "refused")
        answer = await client.put("/v1/topics/new", json={})
        assert (answer.status_code, answer.json()["missing"]) == (503, ["broker-b"])
        pair.kill("broker-b")
        answer = await client.put("/v1/topics/new", json={})
        assert (answer.status_code, answer.json()["missing"]) == (503, ["broker-b"])
        pair.registered.add("broker-b")
        pair.stores["broker-b"].away = None
        assert (await client.put("/v1/topics/new", json={})).status_code == 200


async def test_a_missing_nameserver_is_named(system, connect):
    system.nameservers = ["127.0.0.1:9876", "127.0.0.1:9877"]
    system.silent_nameservers = {"127.0.0.1:9877"}
    async with connect(system.gateway()) as client:
        answer = await client.put("/v1/topics/new", json={})
    assert (answer.status_code, answer.json()["missing"]) == (503, ["nameserver 127.0.0.1:9877"])


async def test_a_nameserver_that_never_learns_the_route_is_named(system, connect, monkeypatch):
    async def old_route(_address, _topic):
        return None

    monkeypatch.setattr(system, "route_at", old_route)
    async with connect(system.gateway()) as client:
        answer = await client.put("/v1/topics/new", json={})
    assert (answer.status_code, answer.json()["missing"]) == (503, ["nameserver 127.0.0.1:9876"])


async def test_a_slow_nameserver_does_not_prolong_the_wait_for_a_route(system, connect, monkeypatch):
    asked = []

    async def slow_route(_address, topic):
        asked.append(topic)
        await asyncio.sleep(0.09)

    monkeypatch.setattr(system, "route_at", slow_route)
    async with connect(system.gateway(topic_ready_seconds=0.1)) as client:
        answer = await client.put("/v1/topics/new", json={})
    assert (answer.status_code, answer.json()["missing"]) == (503, ["nameserver 127.0.0.1:9876"])
    assert len(asked) <= 2


async def test_system_topics_are_hidden_and_not_changed(client, system):
    for name in (
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "%RETRY%g1",
        "DefaultCluster",
        "broker-a",
        "rmq_sys_wheel_timer",
    ):
        system.add_topic(name)
    listed = [one["topic"] for one in (await client.get("/v1/topics")).json()["topics"]]
    assert listed == ["orders"]
    shown = [one["topic"] for one in (await client.get("/v1/topics?system=true")).json()["topics"]]
    assert {"TBW102", "%RETRY%g1", "orders"} <= set(shown)
    assert "GANTRY_SYS_PROBE" not in shown
    for topic in ("TBW102", "GANTRY_SYS_PROBE", "rmq_sys_x"):
        assert (await client.put(f"/v1/topics/{topic}", json={})).status_code == 403
        assert (await client.delete(f"/v1/topics/{topic}")).status_code == 403
    for path in ("/v1/topics/GANTRY_SYS_PROBE", "/v1/topics/GANTRY_SYS_PROBE/queues/broker-a/0/messages"):
        assert (await client.get(path)).status_code == 403


async def test_a_deleted_topic_is_gone_everywhere(pair_client, pair):
    await pair_client.put("/v1/topics/orders", json={})
    answer = await pair_client.delete("/v1/topics/orders")
    assert answer.json() == {"status": "deleted"}
    assert not any("orders" in store.kept_topics for store in pair.stores.values())
    assert ("ORDER_TOPIC_CONFIG", "orders") not in pair.kept_values
    assert (await pair_client.get("/v1/topics/orders")).status_code == 404


async def test_a_topic_shows_what_it_can_while_a_broker_is_away(pair_client, pair):
    await pair_client.get("/v1/topics/orders")
    pair.stores["broker-b"].away = PeerAway("broker-b", True, "lost")
    shown = (await pair_client.get("/v1/topics/orders")).json()
    assert shown["missing"] == ["broker-b"]
    assert {queue["broker"] for queue in shown["queues"]} == {"broker-a"}
    pair.stores["broker-a"].away = PeerAway("broker-a", True, "lost")
    assert (await pair_client.get("/v1/topics/orders")).status_code == 503


async def test_groups_are_created_paused_resumed_and_deleted(pair_client, pair):
    made = await pair_client.put(
        "/v1/groups/g2", json={"retryMaxTimes": 3, "retryQueues": 2, "broadcast": False}
    )
    assert made.json() == {
        "group": "g2", "paused": False, "broadcast": False, "retryMaxTimes": 3, "retryQueues": 2, "brokers": ["broker-a", "broker-b"],
        "retryPolicy": None, "order": "none", "startAt": "earliest",
    }  # fmt: skip
    assert (await pair_client.post("/v1/groups/g2:pause")).json() == {"status": "paused"}
    assert not any(store.kept_groups["g2"].is_enabled for store in pair.stores.values())
    paused = (await pair_client.get("/v1/groups/g2")).json()
    assert (paused["paused"], paused["retryMaxTimes"]) == (True, 3)
    assert (await pair_client.post("/v1/groups/g2:resume")).json() == {"status": "resumed"}
    assert all(store.kept_groups["g2"].is_enabled for store in pair.stores.values())
    assert [g["group"] for g in (await pair_client.get("/v1/groups")).json()["groups"]] == ["g1", "g2"]
    assert (await pair_client.delete("/v1/groups/g2")).json() == {"status": "deleted"}
    assert (await pair_client.get("/v1/groups/g2")).status_code == 404


async def test_system_groups_are_hidden_and_not_changed(client, system):
    for name in ("TOOLS_CONSUMER", "GANTRY_GATEWAY", "CID_RMQ_SYS_TRANS"):
        system.add_group(name)
        assert (await client.put(f"/v1/groups/{name}", json={})).status_code == 403
        assert (await client.delete(f"/v1/groups/{name}")).status_code == 403
        assert (await client.post(f"/v1/groups/{name}:pause")).status_code == 403
    assert [g["group"] for g in (await client.get("/v1/groups")).json()["groups"]] == ["g1"]


async def test_a_group_named_like_a_groups_topic_is_refused_and_an_old_one_can_be_deleted(client, system):
    for name in ("%RETRY%g1", "%DLQ%g1"):
        path = f"/v1/groups/{name.replace('%', '%25')}"
        check(await client.put(path, json={}), 403, "group")
        check(await client.put("/v1/definitions", json={"groups": [{"group": name}]}), 403, "group")
        receive = f"/v1/topics/orders/groups/{name.replace('%', '%25')}/messages:receive"
        check(await client.post(receive, json={}), 403, "group")
        system.add_group(name)
        assert (await client.delete(path)).status_code == 200


async def test_offsets_are_set_and_lag_is_counted_with_the_age_of_the_oldest(client, system):
    for n in range(5):
        await send(client, str(n), queueId=2)
        system.clocks.advance(1)
    entry = {"topic": "orders", "broker": "broker-a", "queueId": 2, "offset": 3}
    assert (await client.put("/v1/groups/g1/offsets", json={"offsets": [entry]})).json() == {
        "status": "stored"
    }
    lag = (await client.get("/v1/groups/g1/lag")).json()
    assert (lag["group"], lag["total"], lag["missing"]) == ("g1", 2, [])
    assert [queue["queueId"] for queue in lag["queues"]] == [0, 1, 2, 3]
    assert lag["queues"][2] == {
        "topic": "orders",
        "broker": "broker-a",
        "queueId": 2,
        "offset": 3,
        "maxOffset": 5,
        "lag": 2,
        "oldestUnackedAgeMs": 2000,
    }
    entry["offset"] = 5
    await client.put("/v1/groups/g1/offsets", json={"offsets": [entry]})
    assert (await client.get("/v1/groups/g1/lag")).json()["queues"][2]["oldestUnackedAgeMs"] == 0


async def test_a_group_without_offsets_has_no_lag(client):
    nothing = {"group": "g1", "total": 0, "queues": [], "missing": []}
    assert (await client.get("/v1/groups/g1/lag")).json() == nothing


async def test_lag_includes_brokers_without_a_commit_of_the_group(pair, pair_client):
    for _ in range(3):
        await send(pair_client, "x", broker="broker-b", queueId=1)
    entry = {"topic": "orders", "broker": "broker-a", "queueId": 0, "offset": 0}
    await pair_client.put("/v1/groups/g1/offsets", json={"offsets": [entry]})
    lag = (await pair_client.get("/v1/groups/g1/lag")).json()
    assert lag["total"] == (await pair_client.get("/v1/groups/g1/lag?topic=orders")).json()["total"] == 3
    assert [(q["broker"], q["queueId"]) for q in lag["queues"]] == [
        (broker, n) for broker in ("broker-a", "broker-b") for n in range(4)
    ]
    pair.kill("broker-b")
    assert (await pair_client.get("/v1/groups/g1/lag")).json()["missing"] == ["broker-b"]


async def test_a_broker_that_leaves_during_the_lag_call_is_missing(pair, pair_client):
    for broker in ("broker-a", "broker-b"):
        entry = {"topic": "orders", "broker": broker, "queueId": 0, "offset": 0}
        await pair_client.put("/v1/groups/g1/offsets", json={"offsets": [entry]})
    progress, store = pair.stores["broker-b"].progress, pair.stores["broker-b"]

    async def progress_then_kill(group, topic):
        result = await progress(group, topic)
        pair.kill("broker-b")
        return result

    store.progress = progress_then_kill
    lag = (await pair_client.get("/v1/groups/g1/lag")).json()
    assert lag["missing"] == ["broker-b"]
    assert {queue["broker"] for queue in lag["queues"]} == {"broker-a"}


async def test_the_lag_of_an_unknown_topic_is_404(client):
    answer = await client.get("/v1/groups/g1/lag?topic=nope")
    assert (answer.status_code, answer.json()["code"]) == (404, "TOPIC_NOT_EXIST")


async def test_a_bad_offset_among_several_sets_none(client, system):
    good = {"topic": "orders", "broker": "broker-a", "queueId": 0, "offset": 0}
    answer = await client.put("/v1/groups/g1/offsets", json={"offsets": [good, good | {"offset": 8}]})
    assert answer.json()["field"] == "offsets[1].offset"
    assert system.stores["broker-a"].offsets == {}


async def test_a_message_is_found_by_both_its_ids(client):
    sent = await send(client, "find me", tag="a", keys=["k-1"], idempotencyKey="i")
    by_offset_id = (await client.get(f"/v1/messages/{sent['offsetMessageId']}")).json()
    by_unique_id = (await client.get(f"/v1/messages/{sent['messageId']}?topic=orders")).json()
    assert by_offset_id == by_unique_id
    assert (by_offset_id["body"], by_offset_id["messageId"], by_offset_id["idempotencyKey"]) == (
        "find me",
        sent["messageId"],
        "i",
    )
    with_topic = await client.get(f"/v1/messages/{sent['offsetMessageId']}?topic=orders")
    assert with_topic.json() == by_offset_id


async def test_an_id_that_names_nothing_is_404(client):
    sent = await send(client)
    foreign = "0A000001" + sent["offsetMessageId"][8:]
    assert (await client.get(f"/v1/messages/{foreign}")).status_code == 404
    nowhere = sent["offsetMessageId"][:16] + "00000000000FFFFF"
    assert (await client.get(f"/v1/messages/{nowhere}")).status_code == 404
    assert (await client.get("/v1/messages/whatever?topic=orders")).status_code == 404
    assert (await client.get(f"/v1/messages/{sent['messageId'][:-1]}Z?topic=orders")).status_code == 404


async def test_an_id_of_a_broker_that_is_away_is_503(pair_client, pair):
    sent = await send(pair_client, broker="broker-b")
    await pair_client.get("/v1/cluster")
    pair.kill("broker-b")
    answer = await pair_client.get(f"/v1/messages/{sent['offsetMessageId']}")
    assert (answer.status_code, answer.json()["retryable"]) == (503, True)


async def test_messages_are_found_by_key_over_all_brokers_oldest_first(pair_client, pair):
    for broker in ("broker-b", "broker-a", "broker-b"):
        await send(pair_client, broker, broker=broker, keys=["k-1", "other"])
        pair.clocks.advance(1)
    await send(pair_client, "no", keys=["k-2"])
    found = (await pair_client.get("/v1/messages?topic=orders&key=k-1")).json()
    assert [m["body"] for m in found["messages"]] == ["broker-b", "broker-a", "broker-b"]
    assert found["truncated"] is False
    few = (await pair_client.get("/v1/messages?topic=orders&key=k-1&max=2")).json()
    assert (len(few["messages"]), few["truncated"]) == (2, True)
    assert (await pair_client.get("/v1/messages?topic=orders&key=none")).json() == {
        "messages": [],
        "truncated": False,
    }


async def test_messages_are_found_by_time(client, system):
    for n in range(10):
        await send(client, str(n))
        system.clocks.advance(1)
    start = "2026-01-01T00:00:03Z"
    found = (await client.get(f"/v1/messages?topic=orders&from={start}&to=1767225606000")).json()
    assert [m["body"] for m in found["messages"]] == ["3", "4", "5"]
    few = (await client.get("/v1/messages?topic=orders&max=4")).json()
    assert ([m["body"] for m in few["messages"]], few["truncated"]) == (["0", "1", "2", "3"], True)


async def test_a_search_by_time_continues_while_messages_are_removed(client, system):
    await send(client, "0")
    system.stores["broker-a"].removing = 2
    found = (await client.get("/v1/messages?topic=orders&from=0")).json()
    assert [m["body"] for m in found["messages"]] == ["0"]


async def test_an_incomplete_index_is_503(client, system):
    await send(client)
    system.stores["broker-a"].refuse = StoreRefused(14, "the index is being built", "INDEX_BUILDING")
    answer = await client.get("/v1/messages?topic=orders&key=k")
    assert (answer.status_code, answer.json()["code"]) == (503, "INDEX_BUILDING")


async def test_brokers_and_cluster_show_which_brokers_are_away(pair_client, pair):
    brokers = (await pair_client.get("/v1/brokers")).json()["brokers"]
    assert [(b["broker"], b["alive"], b["version"], b["messagesToday"]) for b in brokers] == [
        ("broker-a", True, "V5_3_3", 3),
        ("broker-b", True, "V5_3_3", 3),
    ]
    pair.kill("broker-b")
    cluster = (await pair_client.get("/v1/cluster")).json()
    assert cluster == {
        "clusters": [{"name": "DefaultCluster", "brokers": ["broker-a", "broker-b"]}],
        "groups": [],
        "nameservers": [{"address": "127.0.0.1:9876", "alive": True}],
        "missing": ["broker-b"],
    }


async def test_definitions_can_be_exported_and_applied_elsewhere(pair_client, pair, system, connect):
    await pair_client.put(
        "/v1/topics/t1", json={"readQueues": 2, "writeQueues": 3, "perm": "r", "messageType": "FIFO"}
    )
    await pair_client.put("/v1/groups/g2", json={"retryMaxTimes": 4, "paused": True})
    exported = (await pair_client.get("/v1/definitions")).json()
    assert {"topic": "t1", "readQueues": 2, "writeQueues": 3, "perm": "r", "messageType": "FIFO"} in exported[
        "topics"
    ]
    async with connect(system.gateway()) as other:
        applied = await other.put("/v1/definitions", json=exported)
        assert applied.json() == {"topics": 2, "groups": 2}
        assert (await other.get("/v1/definitions")).json() == exported


async def test_definitions_are_all_checked_before_any_is_applied(client, system):
    body = {"topics": [{"topic": "ok"}, {"topic": "TBW102"}], "groups": []}
    assert (await client.put("/v1/definitions", json=body)).status_code == 403
    body = {"topics": [{"topic": "ok"}], "groups": [{"group": "TOOLS_CONSUMER"}]}
    assert (await client.put("/v1/definitions", json=body)).status_code == 403
    assert "ok" not in system.stores["broker-a"].kept_topics


async def test_ready_needs_one_round_trip_per_store_and_only_one(pair, connect):
    pair.stores["broker-b"].refuse = StoreRefused(14, "recovering")
    async with connect(pair.gateway()) as client:
        answer = await client.get("/health/ready")
        assert (answer.status_code, answer.json()) == (
            503,
            {"status": "starting", "stores": {"broker-a": "ok", "broker-b": "refused: recovering"}},
        )
        pair.stores["broker-b"].refuse = None
        for _ in range(3):
            answer = await client.get("/health/ready?brokers=2")
            assert (answer.status_code, answer.json()["stores"]) == (
                200,
                {"broker-a": "ok", "broker-b": "ok"},
            )
        assert (await client.get("/health/ready?brokers=3")).status_code == 503
        assert pair.stores["broker-a"].calls.count("send") == 1


async def test_a_fresh_check_sends_again_at_most_once_per_second(pair, connect):
    store = pair.stores["broker-a"]
    async with connect(pair.gateway()) as client:
        assert (await client.get("/health/ready")).status_code == 200
        store.refuse = StoreRefused(14, "disk full")
        assert (await client.get("/health/ready")).status_code == 200
        pair.clocks.advance(1)
        answer = await client.get("/health/ready?fresh=true")
        assert answer.status_code == 503
        assert answer.json()["stores"] == {"broker-a": "refused: disk full", "broker-b": "ok"}
        assert (await client.get("/health/ready")).status_code == 200
        sent = store.calls.count("send")
        for _ in range(3):
            await client.get("/health/ready?fresh=true")
        assert store.calls.count("send") == sent
        pair.clocks.advance(1)
        store.refuse = None
        assert (await client.get("/health/ready?fresh=true")).status_code == 200
        assert store.calls.count("send") == sent + 1


async def test_without_nameserver_the_gateway_lives_but_is_not_ready(system, connect):
    system.silent_nameservers = set(system.nameservers)
    async with connect(system.gateway()) as client:
        assert (await client.get("/health/live")).status_code == 200
        assert (await client.get("/health/ready")).status_code == 503
        for path in ("/v1/topics", "/v1/groups", "/v1/definitions"):
            answer = await client.get(path)
            assert (answer.status_code, answer.json()["retryable"]) == (503, True)
