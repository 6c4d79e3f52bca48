"""Reads from followers of a broker group, in real processes: the same answers as the leader's, while it lives and while nobody leads."""

import base64
import contextlib
import json
import time

import pytest
from group_stores import CONTINUE, STOP, Sender, StoreGroup
from nats_nodes import nodes
from sending_side import send_header
from test_store_group import read_all, send_many

from gantry_access.signatures.remoting import sign
from gantry_access.signatures.signing_key import SigningKey
from gantry_wire.frames.encode import encode_request
from gantry_wire.headers.messages import PullReplyHeader, SendReplyHeader
from gantry_wire.records.message_record import scan_records

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


def max_offset(sender):
    return int(sender.ask(30, {"topic": "orders", "queueId": "0"}).fields["offset"])


def follower_of(group):
    """Return a follower that shows all that its leader does."""
    leader = group.leader()
    follower = next(store for store in group.stores.values() if store is not leader)
    group.wait(
        lambda: max_offset(Sender(leader.port)) == max_offset(Sender(follower.port)), "the follower is behind"
    )
    return follower


def test_a_follower_answers_reads_as_its_leader_does_and_refuses_the_rest(group):
    leader = group.leader()
    group.wait_for_set(3)
    sender = Sender(leader.port)
    properties = "KEYS\x01k7\x02TAGS\x01red\x02UNIQ_KEY\x01u7\x02"
    placed = sender.ask(310, send_header("orders", 0, properties=properties), b"keyed").read(SendReplyHeader)
    assert send_many(leader, 0, 40)
    assert sender.ask(200, None, b'{"groupName":"g"}').code == 0
    offset = {"consumerGroup": "g", "topic": "orders", "queueId": "0"}
    assert sender.ask(15, {**offset, "commitOffset": "7"}).code == 0
    follower = follower_of(group)
    reader = Sender(follower.port)
    group.wait(lambda: reader.ask(14, offset).fields.get("offset") == "7", "the offset is not replayed")
    assert read_from(reader) == read_all(leader)
    queue = {"topic": "orders", "queueId": "0"}
    key = {"topic": "orders", "key": "k7", "maxNum": "8", "beginTimestamp": "0", "endTimestamp": str(1 << 50)}
    position = {"offset": str(int(placed.msg_id[16:], 16))}
    asked = [
        (30, queue),
        (31, queue),
        (32, queue),
        (29, {**queue, "timestamp": "0"}),
        (33, position),
        (12, key),
    ]
    for code, fields in asked:
        there, here = sender.ask(code, fields), reader.ask(code, fields)
        assert (here.code, here.fields.get("offset"), here.body) == (
            0,
            there.fields.get("offset"),
            there.body,
        )
    beat = b'{"clientID":"c1","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"orders","subString":"red"}]}]}'
    member = Sender(follower.port)  # gets the notice of the change, too
    assert member.ask(34, None, beat).code == 0
    assert b"c1" in reader.ask(38, {"consumerGroup": "g"}).body
    by_heartbeat = {
        "consumerGroup": "g", "topic": "orders", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "1",
        "commitOffset": "30", "suspendTimeoutMillis": "0", "subVersion": "0",
    }  # fmt: skip
    (record,) = scan_records(reader.ask(11, by_heartbeat).body)
    assert record.body == b"keyed"
    assert reader.ask(14, offset).fields["offset"] == "7"
    assert b"brokerRole=SLAVE" in reader.ask(26).body
    assert reader.ask(28).code == 0
    assert b"orders" in reader.ask(21).body
    refused = [
        (310, send_header("orders", 0)),
        (15, {**offset, "commitOffset": "9"}),
        (17, {"topic": "t"}),
        (36, None),
        (41, None),
    ]
    assert {reader.ask(code, fields, b"{}").fields.get("gantryCode") for code, fields in refused} == {
        "NOT_LEADER"
    }


def read_from(reader):
    """Return every body of the first queue that a follower shows."""
    bodies = []
    while (answer := reader.pull(len(bodies))).code == 0:
        bodies += [record.body for record in scan_records(answer.body)]
    return bodies


def check_new_group(reader, member):
    """A consumer of a group that no leader knows begins, as at RocketMQ's slave."""
    beat = b'{"clientID":"c9","consumerDataSet":[{"groupName":"new","subscriptionDataSet":[{"topic":"orders","subString":"*"}]}]}'
    assert member.ask(34, None, beat).code == 0  # it gets the notice of the change, too
    assert b"c9" in reader.ask(38, {"consumerGroup": "new"}).body
    assert reader.ask(14, {"consumerGroup": "new", "topic": "orders", "queueId": "0"}).fields["offset"] == "0"
    pull = {
        "consumerGroup": "new", "topic": "orders", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "0",
        "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0",
    }  # fmt: skip
    assert len(list(scan_records(reader.ask(11, pull).body))) == 32


def test_reads_continue_while_nobody_leads_and_held_pulls_go_to_the_next_leader(group):
    leader = group.leader()
    group.wait_for_set(3)
    acknowledged = send_many(leader, 0, 50)
    last = follower_of(group)
    for store in group.stores.values():
        if store is not last:
            store.kill()
    reader = Sender(last.port, seconds=60)
    group.wait(lambda: reader.pull(50).code == 19, "the follower believes that its leader lives")
    assert read_from(reader) == acknowledged
    check_new_group(reader, Sender(last.port))
    held = {
        "consumerGroup": "TOOLS_CONSUMER", "topic": "orders", "queueId": "0", "queueOffset": "50", "maxMsgNums": "32",
        "sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": "40000", "subscription": "*", "subVersion": "0",
    }  # fmt: skip
    reader.socket.sendall(encode_request(11, 9, held))
    begun = time.monotonic()
    for store in group.stores.values():
        if store is not last:
            store.start()
    answer = reader.answer()
    assert (answer.opaque, answer.code) in {(9, 20), (9, 19)}
    assert answer.read(PullReplyHeader).next_begin_offset == 50
    assert time.monotonic() - begun < 30
    assert read_all(group.leader()) == acknowledged


def test_a_follower_shows_nothing_that_the_set_has_not_confirmed(tmp_path):
    """One follower has the message; the other one, which is in the set, has not."""
    with (
        nodes(tmp_path / "nats", 1) as made,
        contextlib.closing(
            StoreGroup(tmp_path, made[0].url, servers=1, lease_ms=20_000, grace_ms=30_000)
        ) as group,
    ):
        group.start()
        leader = group.leader()
        group.wait_for_set(3)
        assert send_many(leader, 0, 3)
        follower = follower_of(group)
        other = next(store for store in group.stores.values() if store not in {leader, follower})
        other.signal(STOP)
        sender, reader = Sender(leader.port, seconds=60), Sender(follower.port)
        sender.socket.sendall(encode_request(310, 1, send_header("orders", 0), b"waits"))
        group.wait(
            lambda: follower.state()["endOffset"] > follower.state()["confirmOffset"],
            "the follower has not got it",
        )
        time.sleep(0.5)
        assert max_offset(reader) == 3
        assert reader.pull(3).code == 20
        other.signal(CONTINUE)
        assert sender.answer().code == 0
        group.wait(lambda: max_offset(reader) == 4, "the follower does not show it")


ROOT, ALICE, BOB = ("root", "root secret"), ("alice", "alice secret"), ("bob", "bob secret")
PULL = {
    "consumerGroup": "g", "topic": "orders", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4",
    "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
}  # fmt: skip

SEND = send_header("orders", 0).to_fields()


class Signing(Sender):
    """A client that signs."""

    def signed(self, user, code, fields, body=b""):
        return self.ask(code, sign(fields, body, user[0], SigningKey(user[1])), body)


def code_for(store, user, code=11, fields=PULL, body=b""):
    """Return the code of a user's request, -1 without an answer."""
    with contextlib.suppress(OSError):
        client = Signing(store.port)
        try:
            return client.signed(user, code, fields, body).code
        finally:
            client.close()
    return -1


def leader_for_root(group):
    """Return the store that takes a send."""
    found = []

    def takes():
        found[:] = [
            store
            for store in group.stores.values()
            if store.process.poll() is None and code_for(store, ROOT, 310, SEND, b"m") == 0
        ]
        return bool(found)

    group.wait(takes, "no leader takes a send")
    return found[0]


def test_a_follower_checks_users_and_policies_as_its_leader_does(tmp_path):
    keys, first = tmp_path / "keys", tmp_path / "first"
    keys.write_text(f"k1 {base64.b64encode(bytes(range(32))).decode()}\n")
    keys.chmod(0o600)
    first.write_text('{"username":"root","password":"root secret"}')
    with (
        nodes(tmp_path / "nats", 1) as made,
        contextlib.closing(
            StoreGroup(
                tmp_path / "stores",
                made[0].url,
                servers=1,
                access_key_file=keys,
                access_initial_user_file=first,
            )
        ) as group,
    ):
        for name, store in group.stores.items():
            store.start(access_audit_file=tmp_path / f"audit-{name}")
        leader = leader_for_root(group)
        for user in (ALICE, BOB):
            body = json.dumps({"password": user[1]}).encode()
            assert code_for(leader, ROOT, 3001, {"username": user[0]}, body) == 0
        entries = [
            {"resource": f"{kind}:{name}", "actions": ["Sub"], "decision": "Allow"}
            for kind, name in (("Topic", "orders"), ("Group", "g"))
        ]
        policy = json.dumps({"policies": [{"entries": entries}]}).encode()
        assert code_for(leader, ROOT, 3006, {"subject": "User:alice"}, policy) == 0
        assert code_for(leader, ROOT, 200, {}, b'{"groupName":"g"}') == 0
        follower = next(store for store in group.stores.values() if store is not leader)
        group.wait(lambda: code_for(follower, ALICE) == 0, "the follower does not know the user")
        assert code_for(follower, BOB) == 16
        assert code_for(follower, ("alice", "wrong")) == 16
        assert Sender(follower.port).ask(11, PULL).code == 16
        assert code_for(follower, ROOT, 310, SEND, b"m") == 14
        assert code_for(leader, ROOT, 3003, {"username": "alice"}) == 0
        group.wait(lambda: code_for(follower, ALICE) == 16, "the follower does not know of the deletion")
        for store in group.stores.values():
            if store is not follower:
                store.kill()
        assert code_for(follower, ROOT) == 0
        follower.kill()
        follower.start()
        group.wait(lambda: code_for(follower, ROOT) == 14, "the follower does not start")
        time.sleep(1)
        assert code_for(follower, ROOT) == 14  # it may have missed that users were deleted
