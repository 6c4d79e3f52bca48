"""Asynchronous replication in real processes: a leader answers plain sends alone, readers see what the group has, a takeover may lose the rest."""

import contextlib

import pytest
from group_stores import CONTINUE, STOP, Replica, Sender, StoreGroup
from nats_nodes import nodes
from sending_side import send_header
from test_store_group import read_all

from gantry_wire.frames.encode import encode_request
from gantry_wire.headers.messages import SendReplyHeader

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
KEYED = send_header("orders", 0, properties="__GANTRY_KEY\x01k1\x02")
OVERDUE = send_header("orders", 0, properties="TIMER_DELIVER_MS\x011000\x02")
QUEUE = {"topic": "orders", "queueId": "0"}


@contextlib.contextmanager
def without_followers(tmp_path, stop, **settings):
    """Yield a group and its leader. The others were stopped just now, so that it has its lease a while longer."""
    with (
        nodes(tmp_path / "nats", 1) as made,
        contextlib.closing(
            StoreGroup(tmp_path, made[0].url, servers=1, replication="async", **settings)
        ) as group,
    ):
        group.start()
        leader = group.leader()
        group.wait_for_set(3)
        assert Sender(leader.port).send(b"before").code == 0
        group.wait(
            lambda: leader.state()["confirmOffset"] == leader.state()["endOffset"], "the followers are behind"
        )
        for store in group.stores.values():
            if store is not leader:
                stop(store)
        yield group, leader


def resume(group):
    for store in group.stores.values():
        store.signal(CONTINUE)


@pytest.mark.parametrize(("flush", "header"), [("sync", KEYED), ("async", KEYED), ("async", OVERDUE)])
def test_a_plain_send_is_answered_by_the_leader_alone_and_seen_when_the_set_has_it(tmp_path, flush, header):
    with without_followers(
        tmp_path, lambda store: store.signal(STOP), flush=flush, lease_ms=12_000, grace_ms=24_000
    ) as (group, leader):
        sender, waits = Sender(leader.port), Sender(leader.port, seconds=60)
        answer = sender.send(b"alone")
        assert (answer.code, answer.read(SendReplyHeader).durability) == (0, "written")
        assert sender.ask(30, QUEUE).fields["offset"] == "1"
        assert b"brokerRole=ASYNC_MASTER" in sender.ask(26).body
        waits.socket.sendall(encode_request(310, 1, header, b"waits"))
        waits.socket.settimeout(1.0)
        with pytest.raises(TimeoutError):
            waits.answer()
        waits.socket.settimeout(60)
        resume(group)
        assert waits.answer().code in {0, 12}
        group.wait(
            lambda: sender.ask(30, QUEUE).fields["offset"] == "3", "the messages do not become visible"
        )
        assert read_all(leader) == [b"before", b"alone", b"waits"]


def test_a_takeover_loses_what_the_leader_alone_had_and_nobody_has_read(tmp_path):
    with without_followers(tmp_path, Replica.kill, lease_ms=8_000, grace_ms=12_000) as (group, leader):
        assert Sender(leader.port).send(b"alone").code == 0
        assert read_all(leader) == [b"before"]
        leader.kill()
        for store in group.stores.values():
            if store is not leader:
                store.start()
        second = group.leader()
        assert Sender(second.port).send(b"after").code == 0
        group.wait(lambda: read_all(second) == [b"before", b"after"], "the new leader has something else")
        leader.start()
        group.wait_for_set(3)
        assert read_all(second) == [b"before", b"after"]
