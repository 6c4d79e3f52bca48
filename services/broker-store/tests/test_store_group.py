"""A broker group of real processes: what is acknowledged survives its leader, and so does the rest of its state."""

import asyncio
import contextlib
import random
import shutil
import signal
import time

import pytest
from group_stores import CONTINUE, EXIT_RESTART, STOP, Sender, StoreGroup
from nats_nodes import nodes
from sending_side import send_header

from gantry_chassis.nats_connection import NatsRequests
from gantry_wire.bodies.admin import EpochEntryCache, HARuntimeInfo
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.frames.encode import encode_request
from gantry_wire.headers.messages import PullReplyHeader, SendReplyHeader
from gantry_wire.records.message_record import scan_records

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

RETENTION_SECONDS = 4.0
"""More than `reserved_hours` of the test."""
OFFSET_SECONDS = 1.5
"""Committed offsets are gathered for a second."""


def read_all(store, topic="orders"):
    """Return every body of the topic's first queue that retention left."""
    reader, bodies = Sender(store.port), []
    offset = int(reader.ask(31, {"topic": topic, "queueId": "0"}).fields["offset"])
    while True:
        answer = reader.pull(offset, topic)
        if answer.code:
            reader.close()
            return bodies
        bodies += [record.body for record in scan_records(answer.body)]
        offset = answer.read(PullReplyHeader).next_begin_offset


def send_many(store, first, count):
    """Send messages one after the other; return those that were acknowledged."""
    sender = Sender(store.port)
    try:
        bodies = [b"m%d" % number for number in range(first, first + count)]
        return [body for body in bodies if sender.send(body).code == 0]
    finally:
        sender.close()


def code_of(sender, body):
    """Return how a send was answered, -1 for not at all."""
    try:
        return sender.send(body).code
    except (ConnectionError, TimeoutError):
        return -1


def test_what_was_acknowledged_survives_the_kill_of_each_leader(group):
    acknowledged = []
    for turn in range(3):
        leader = group.leader()
        group.wait_for_set(3)
        acknowledged += send_many(leader, turn * 50, 50)
        assert len(acknowledged) == (turn + 1) * 50
        leader.kill()
        assert group.leader() is not leader
        leader.start()
    leader = group.leader()
    assert read_all(leader) == acknowledged
    group.wait_for_set(3)
    ends = {name: store.state()["endOffset"] for name, store in group.stores.items()}
    assert len(set(ends.values())) == 1, ends


def test_a_follower_refuses_and_names_its_leader(group):
    leader = group.leader()
    group.wait_for_set(3)
    follower = next(store for store in group.stores.values() if store is not leader)
    refused = Sender(follower.port).send(b"lost?")
    assert refused.code == 14
    assert refused.fields["gantryCode"] == "NOT_LEADER"
    assert refused.fields["leader"] == f"127.0.0.1:{leader.port}"
    assert follower.get("/health/ready")[0] == 200


def test_tools_see_the_copies_and_the_epochs_of_the_log(group):
    leader = group.leader()
    group.wait_for_set(3)
    assert send_many(leader, 0, 20)
    tool = Sender(leader.port)
    status = decode_body(tool.ask(907).body, HARuntimeInfo)
    others = sorted(f"127.0.0.1:{store.port}" for store in group.stores.values() if store is not leader)
    assert sorted(copy.addr for copy in status.ha_connection_info) == others
    assert (status.is_master, status.in_sync_slave_nums) == (True, 2)
    end = status.master_commit_log_max_offset
    assert [(copy.slave_ack_offset, copy.diff, copy.in_sync) for copy in status.ha_connection_info] == [
        (end, 0, True)
    ] * 2
    leader.kill()
    second = group.leader()
    cache = decode_body(Sender(second.port).ask(1007).body, EpochEntryCache)
    first, later = cache.epoch_list
    assert (first.epoch, first.start_offset, first.end_offset) == (1, 0, later.start_offset)
    assert later.epoch == second.state()["epoch"]
    assert cache.max_offset >= later.start_offset >= end
    follower = next(store for store in group.stores.values() if store not in {leader, second})
    group.wait(
        lambda: second.state()["confirmOffset"] == follower.state()["confirmOffset"], "the follower is behind"
    )
    known = decode_body(Sender(follower.port).ask(1007).body, EpochEntryCache)
    assert [one.epoch for one in known.epoch_list] == [1, later.epoch]
    assert known.broker_id > 0


def test_a_leader_that_slept_acknowledges_nothing_and_ends(group):
    leader = group.leader()
    group.wait_for_set(3)
    assert send_many(leader, 0, 10)
    sender = Sender(leader.port, seconds=30)
    leader.signal(STOP)
    follower = group.leader()
    leader.signal(CONTINUE)
    assert code_of(sender, b"never") != 0
    assert leader.process.wait(30) == EXIT_RESTART
    assert len(read_all(follower)) == 10


def test_with_too_few_in_sync_sends_are_refused_and_later_taken(group):
    leader = group.leader()
    group.wait_for_set(3)
    for store in group.stores.values():
        if store is not leader:
            store.kill()
    sender = Sender(leader.port, seconds=60)
    assert sender.ask(310, send_header("orders", 0), b"waits").code in (12, 14)
    for store in group.stores.values():
        if store is not leader:
            store.start()
    group.wait(lambda: Sender(group.leader().port).send(b"taken").code == 0, "no send is taken")


def test_topics_offsets_and_keys_move_with_the_lead(group):
    leader = group.leader()
    group.wait_for_set(3)
    sender = Sender(leader.port)
    topic = {
        "topic": "made", "defaultTopic": "TBW102", "readQueueNums": "3", "writeQueueNums": "3", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
    }  # fmt: skip
    assert sender.ask(17, topic).code == 0
    assert sender.ask(200, None, b'{"groupName":"g"}').code == 0
    offset = {"consumerGroup": "g", "topic": "made", "queueId": "1", "commitOffset": "7"}
    assert sender.ask(15, offset).code == 0
    keyed = send_header("made", 2, properties="__GANTRY_KEY\x01k1\x02")
    first = sender.ask(310, keyed, b"once")
    assert first.code == 0
    time.sleep(OFFSET_SECONDS)
    leader.kill()
    second = Sender(group.leader().port)
    asked = {"consumerGroup": "g", "topic": "made", "queueId": "1"}
    assert second.ask(14, asked).fields["offset"] == "7"
    again = second.ask(310, keyed, b"once")
    kept, repeated = first.read(SendReplyHeader), again.read(SendReplyHeader)
    assert (again.code, repeated.duplicate, repeated.queue_offset) == (0, True, kept.queue_offset)
    leader.start()


def test_a_leader_that_stops_in_order_answers_what_waits_for_its_followers(group):
    leader = group.leader()
    group.wait_for_set(3)
    followers = [store for store in group.stores.values() if store is not leader]
    sender = Sender(leader.port, seconds=30)
    for store in followers:
        store.signal(STOP)
    sender.socket.sendall(encode_request(310, 1, send_header("orders", 0), b"waits"))
    group.wait(
        lambda: leader.state()["endOffset"] > leader.state()["confirmOffset"], "the send is not written"
    )
    leader.signal(signal.SIGTERM)
    group.wait(lambda: leader.get("/health/ready")[0] != 200, "the leader does not stop")
    for store in followers:
        store.signal(CONTINUE)
    assert sender.answer().code == 0
    assert leader.process.wait(30) == 0
    assert read_all(group.leader()) == [b"waits"]


def test_an_orderly_stop_loses_no_committed_offset(group):
    leader = group.leader()
    group.wait_for_set(3)
    sender = Sender(leader.port)
    assert sender.send(b"first").code == 0
    assert sender.ask(200, None, b'{"groupName":"g"}').code == 0
    offset = {"consumerGroup": "g", "topic": "orders", "queueId": "0", "commitOffset": "1"}
    assert sender.ask(15, offset).code == 0
    assert leader.stop() == 0
    asked = {"consumerGroup": "g", "topic": "orders", "queueId": "0"}
    assert Sender(group.leader().port).ask(14, asked).fields["offset"] == "1"


def first_file(store):
    """Return where the files of a store's log begin."""
    return min(int(path.name) for path in (store.directory / "commitlog").iterdir())


def test_a_new_replica_begins_where_retention_left_the_log_and_can_lead(tmp_path):
    """Its leader has deleted the beginning. Followers delete the same; the new one derives everything from what is left."""
    settings = {"segment_bytes": 1 << 20, "reserved_hours": 0.001, "checkpoint_seconds": 1}
    with nodes(tmp_path / "nats", 1) as made:
        group = StoreGroup(tmp_path, made[0].url, servers=1, **settings)
        try:
            kept_after_retention(group)
        finally:
            group.close()


def kept_after_retention(group):
    one, other, new = group.stores.values()
    one.start()
    other.start()
    leader = group.leader()
    group.wait_for_set(2)
    sender = Sender(leader.port)
    old = [b"old %d" % number + bytes(200_000) for number in range(12)]
    assert [sender.send(body).code for body in old] == [0] * len(old)
    time.sleep(RETENTION_SECONDS)
    young = [b"young %d" % number for number in range(40)]
    assert sender.ask(329).code == 0
    assert [sender.send(body).code for body in young] == [0] * len(young)
    begin = first_file(leader)
    assert begin > 0
    new.start()
    assert new.process.wait(30) == EXIT_RESTART
    new.start()
    group.wait_for_set(3)
    assert first_file(new) == begin
    group.wait(
        lambda: {first_file(store) for store in group.stores.values()} == {begin}, "a follower keeps files"
    )
    messages = read_all(leader)
    assert messages[-len(young) :] == young
    assert len(messages) < len(old) + len(young)
    for _ in range(10):
        leader = group.leader()
        if leader is new:
            break
        leader.kill()
        group.wait(lambda old=leader: group.leader() is not old, "no other leader")
        leader.start()
        group.wait_for_set(3)
    assert leader is new
    assert read_all(new) == messages
    assert Sender(new.port).send(b"new").read(SendReplyHeader).queue_offset == len(old) + len(young)


def test_a_leader_that_stops_hands_over_without_silence(tmp_path):
    """The others would notice its silence only after the grace, two minutes here."""
    with (
        nodes(tmp_path / "nats", 1) as made,
        contextlib.closing(StoreGroup(tmp_path, made[0].url, servers=1, grace_ms=120_000)) as group,
    ):
        group.start()
        leader = group.leader()
        group.wait_for_set(3)
        acknowledged = send_many(leader, 0, 20)
        assert leader.stop() == 0
        following = group.leader()
        assert read_all(following) == acknowledged
        leader.start()
        group.wait_for_set(3)


def test_the_lead_moves_to_the_replica_that_is_named(group):
    leader = group.leader()
    group.wait_for_set(3)
    acknowledged = send_many(leader, 0, 20)
    named = next(name for name, store in group.stores.items() if store is not leader)
    assert leader.post("/v1/replication/move-leader?to=nobody")[0] == 409
    assert leader.post(f"/v1/replication/move-leader?to={named}")[0] == 202
    assert leader.process.wait(30) == EXIT_RESTART
    assert group.leader().name == named
    leader.start()
    group.wait_for_set(3)
    assert read_all(group.leader()) == acknowledged
    assert leader.post("/v1/replication/move-leader")[0] == 409


@pytest.mark.parametrize("how", ["move", "stop"])
def test_a_lead_goes_to_the_replica_that_was_heard_and_not_to_a_paused_one(tmp_path, how):
    """The paused one stays in the set, because that may not shrink. Named, it is refused; the others would notice its silence after two minutes."""
    with (
        nodes(tmp_path / "nats", 1) as made,
        contextlib.closing(
            StoreGroup(tmp_path, made[0].url, servers=1, grace_ms=120_000, min_in_sync=3)
        ) as group,
    ):
        group.start()
        leader = group.leader()
        group.wait_for_set(3)
        acknowledged = send_many(leader, 0, 20)
        paused, alive = (store for store in group.stores.values() if store is not leader)
        paused.signal(STOP)
        try:
            group.wait(lambda: not leader.state()["hasLease"], "the leader still hears the paused one")
            status, answer = leader.post(f"/v1/replication/move-leader?to={paused.name}")
            assert (status, "was not heard" in str(answer), alive.name in str(answer)) == (
                409,
                True,
                True,
            )
            if how == "move":
                assert leader.post("/v1/replication/move-leader")[0] == 202
                assert leader.process.wait(30) == EXIT_RESTART
            else:
                assert leader.stop() == 0
            group.wait(lambda: alive.state().get("role") == "leader", "the one that was heard does not lead")
        finally:
            paused.signal(CONTINUE)
        assert group.leader() is alive
        leader.start()
        group.wait_for_set(3)
        assert read_all(alive) == acknowledged


def test_a_lead_does_not_move_where_no_other_replica_was_heard(tmp_path):
    with (
        nodes(tmp_path / "nats", 1) as made,
        contextlib.closing(StoreGroup(tmp_path, made[0].url, servers=1, names="ab", min_in_sync=2)) as group,
    ):
        group.start()
        leader = group.leader()
        group.wait_for_set(2)
        paused = next(store for store in group.stores.values() if store is not leader)
        paused.signal(STOP)
        try:
            group.wait(lambda: not leader.state()["hasLease"], "the leader still hears the paused one")
            for to in ("", f"?to={paused.name}"):
                status, answer = leader.post(f"/v1/replication/move-leader{to}")
                assert (status, "heard within the lease" in str(answer)) == (409, True)
        finally:
            paused.signal(CONTINUE)
        group.wait(lambda: leader.state()["hasLease"], "the leader does not hear the other one again")
        assert leader.post("/v1/replication/move-leader")[0] == 202
        assert leader.process.wait(30) == EXIT_RESTART
        group.wait(lambda: paused.state().get("role") == "leader", "the other one does not lead")


def test_a_leader_without_followers_stops_although_nobody_confirms_what_it_writes(group):
    leader = group.leader()
    group.wait_for_set(3)
    assert send_many(leader, 0, 3)
    followers = [store for store in group.stores.values() if store is not leader]
    for store in followers:
        store.signal(STOP)
    carried = {
        "consumerGroup": "g", "topic": "orders", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "5",
        "commitOffset": "2", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
    }  # fmt: skip
    assert Sender(leader.port).ask(11, carried).code == 0  # the store writes the offset when it stops
    leader.signal(signal.SIGTERM)
    assert leader.process.wait(30) == 0
    for store in followers:
        store.signal(CONTINUE)


def test_a_directory_of_another_group_with_the_same_name_is_refused(group, tmp_path):
    with nodes(tmp_path / "other-nats", 1) as made:
        other = StoreGroup(tmp_path / "other", made[0].url, servers=1)
        other.start()
        other.wait_for_set(3)
        assert len(send_many(other.leader(), 0, 20)) == 20
        other.close()
    group.wait_for_set(3)
    acknowledged = send_many(group.leader(), 100, 40)
    follower = next(store for store in group.stores.values() if store is not group.leader())
    follower.kill()
    group.wait_for_set(2)  # the register is newer than what the directory knows
    shutil.rmtree(follower.directory)
    shutil.copytree(other.stores[follower.name].directory, follower.directory)
    follower.start()
    assert follower.process.wait(30) not in {0, EXIT_RESTART}
    assert read_all(group.leader()) == acknowledged


def test_a_repeat_is_answered_where_nothing_else_is_sent(group):
    """It writes nothing, so no confirm offset moves for it."""
    leader = group.leader()
    group.wait_for_set(3)
    sender = Sender(leader.port)
    keyed = send_header("orders", 0, properties="__GANTRY_KEY\x01k1\x02")
    assert sender.ask(310, keyed, b"once").code == 0
    for _ in range(3):
        time.sleep(OFFSET_SECONDS)  # what the first send made is in the log then
        again = sender.ask(310, keyed, b"once")
        assert (again.code, again.read(SendReplyHeader).duplicate) == (0, True)


async def delete_register(url):
    requests = NatsRequests([url], "test", random.Random())
    answer = await requests.request("$JS.API.STREAM.DELETE.GANTRY_REGISTER_broker-a", b"", 10)
    await requests.close()
    assert b'"success":true' in answer.payload


def test_without_its_register_a_group_continues_and_nobody_takes_over(group):
    leader = group.leader()
    group.wait_for_set(3)
    sender = Sender(leader.port)
    asyncio.run(delete_register(group.nats_url))
    group.wait(
        lambda: "rebuild the register" in leader.state()["registerFault"], "the leader does not say it"
    )
    assert sender.send(b"as before").code == 0
    leader.kill()
    followers = [store for store in group.stores.values() if store is not leader]
    group.wait(
        lambda: all("rebuild the register" in store.state().get("registerFault", "") for store in followers),
        "the followers do not say it",
    )
    time.sleep(2)  # more than grace_ms
    assert {store.state()["role"] for store in followers} <= {"follower", "learner"}
