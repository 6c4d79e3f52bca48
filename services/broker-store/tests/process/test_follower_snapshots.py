"""Snapshots of a replica that follows: of what it has replayed, readable through a takeover, and the same log as its leader's."""

import json
import time

import pytest
from group_stores import Sender, StoreGroup
from nats_nodes import nodes
from test_store_group import OFFSET_SECONDS, send_many

from gantry_wire.records.message_record import scan_records
from gantry_wire.records.units import CONSUME_QUEUE_UNIT_BYTES

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


def followers(group):
    leader = group.leader()
    return [store for store in group.stores.values() if store is not leader]


def confirmed_everywhere(group):
    """Wait until every replica knows that everything is confirmed, and return where that ends."""
    leader = group.leader()

    def is_so():
        ends = {store.state().get("confirmOffset") for store in group.stores.values()}
        return ends == {leader.state().get("endOffset")}

    group.wait(is_so, "the followers are behind")
    return leader.state()["endOffset"]


def snapshot(store, end=0):
    """Make a snapshot that reaches up to `end`: a follower replays what is confirmed a moment later."""
    until = time.monotonic() + 60
    while True:
        status, manifest = store.post("/snapshots?ttlSeconds=600", 60)
        assert status == 201, manifest
        if manifest["endPosition"] >= end:
            return manifest
        assert time.monotonic() < until, manifest
        time.sleep(0.05)


def bodies(store, manifest, topic="orders"):
    """Return what the files of a snapshot hold of a topic."""
    folder, found = store.directory / "gantry" / "snapshots" / manifest["id"], []
    for name in manifest["segments"]:
        data = (folder / "commitlog" / name).read_bytes()[: manifest["endPosition"] - int(name)]
        found += [record.body for record in scan_records(data, int(name)) if record.topic == topic.encode()]
    return found


def test_a_follower_makes_snapshots_of_all_that_is_confirmed(group):
    group.wait_for_set(3)
    sent = send_many(group.leader(), 0, 50)
    committing = Sender(group.leader().port)
    assert committing.ask(200, None, b'{"groupName":"billing"}').code == 0
    offset = {"consumerGroup": "billing", "topic": "orders", "queueId": "0", "commitOffset": "7"}
    assert committing.ask(15, offset).code == 0
    time.sleep(OFFSET_SECONDS)
    end = confirmed_everywhere(group)
    follower = followers(group)[0]
    manifest = snapshot(follower, end)
    assert manifest["endPosition"] == end
    assert bodies(follower, manifest) == sent
    assert manifest["logId"] == snapshot(group.leader())["logId"]
    folder = follower.directory / "gantry" / "snapshots" / manifest["id"]
    assert "orders" in json.loads((folder / "config" / "topics.json").read_text())["topicConfigTable"]
    assert '"orders@billing":{0:7}' in (folder / "config" / "consumerOffset.json").read_text()
    (queue,) = [one for one in manifest["queues"] if one["directory"] == "consumequeue/orders/0"]
    assert (queue["minOffset"], queue["maxOffset"]) == (0, 50)
    units = (folder / queue["directory"] / f"{0:020d}").read_bytes()
    assert any(units[49 * CONSUME_QUEUE_UNIT_BYTES :])


def test_a_snapshot_of_a_follower_stays_when_it_leads_and_the_next_one_continues_it(group):
    group.wait_for_set(3)
    sent = send_many(group.leader(), 0, 30)
    end = confirmed_everywhere(group)
    made = {store.name: snapshot(store, end) for store in followers(group)}
    group.leader().kill()
    leader = group.leader()
    sent_later = send_many(leader, 30, 30)
    earlier = made[leader.name]
    assert bodies(leader, earlier) == sent
    later = snapshot(leader)
    assert later["logId"] == earlier["logId"]
    assert bodies(leader, later) == sent + sent_later
    assert leader.ask("DELETE", f"/snapshots/{earlier['id']}", 60)[0] == 204


def test_an_expired_snapshot_of_a_follower_is_removed(group):
    group.wait_for_set(3)
    send_many(group.leader(), 0, 5)
    confirmed_everywhere(group)
    follower = followers(group)[0]
    status, manifest = follower.post("/snapshots?ttlSeconds=1", 60)
    assert status == 201
    folder = follower.directory / "gantry" / "snapshots" / manifest["id"]
    assert folder.is_dir()
    group.wait(lambda: not folder.exists(), "the snapshot stays")


def test_a_replica_that_knows_no_group_yet_makes_no_snapshot(tmp_path):
    with nodes(tmp_path / "nats", 1) as (node,):
        group = StoreGroup(tmp_path, node.url, servers=1)
        try:
            store = group.stores["b"]
            store.start()
            group.wait(lambda: bool(store.state()), "the store does not answer")
            assert store.post("/snapshots", 60)[0] == 503
        finally:
            group.close()
