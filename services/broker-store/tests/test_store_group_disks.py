"""Disks of a broker group of real processes: full ones, failing ones, and records that decay."""

import contextlib
import resource

import pytest
from group_stores import EXIT_RESTART, Sender, StoreGroup
from nats_nodes import nodes
from test_store_group import code_of, read_all, send_many

from gantry_wire.headers.messages import SendReplyHeader

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


FULL_BYTES = 1 << 60
"""No disk has so much free space: a store with this setting takes no sends."""


MOVES_MAX = 5
LONG_MS = 12_000
"""More than a leader leads at least before it hands over."""


def test_a_leader_whose_disk_is_full_hands_over_once_and_a_full_replica_never_leads(group_with_full):
    """Its followers have room. It leads for ten seconds at least, so that the lead does not go round."""
    group, full = group_with_full
    assert group.leader() is full
    group.wait_for_set(3)
    assert code_of(Sender(full.port), b"refused") == 14
    assert full.process.wait(60) == EXIT_RESTART
    second = group.leader()
    assert second is not full
    assert len(send_many(second, 0, 10)) == 10
    full.start(free_bytes_min=FULL_BYTES)
    group.wait_for_set(3)
    group.wait(
        lambda: {one["name"]: one["isFit"] for one in second.state()["replicas"]}[full.name] is False,
        "unknown",
    )
    assert second.post(f"/v1/replication/move-leader?to={full.name}")[0] == 409
    second.kill()
    third = group.leader()
    assert third not in {full, second}
    assert len(read_all(third)) == 10
    second.start()
    group.wait_for_set(3)
    assert group.leader() is third


@pytest.fixture
def group_with_full(tmp_path):
    with (
        nodes(tmp_path / "nats", 1) as made,
        contextlib.closing(StoreGroup(tmp_path, made[0].url, servers=1)) as group,
    ):
        full, *others = group.stores.values()
        full.start(free_bytes_min=FULL_BYTES)
        for store in others:
            store.start()
        yield group, full


def test_where_all_disks_are_full_the_leader_stays_and_serves_reads(tmp_path):
    with (
        nodes(tmp_path / "nats", 1) as made,
        contextlib.closing(StoreGroup(tmp_path, made[0].url, servers=1)) as group,
    ):
        group.start()
        leader = group.leader()
        group.wait_for_set(3)
        assert len(send_many(leader, 0, 5)) == 5
        for store in group.stores.values():
            store.kill()
        for store in group.stores.values():
            store.start(free_bytes_min=FULL_BYTES)
        leader = group.leader()
        group.wait_for_set(3)
        assert code_of(Sender(leader.port), b"refused") == 14
        group.wait(lambda: leader.state()["leadsForMs"] > LONG_MS, "it does not lead for long")
        assert group.leader() is leader
        assert len(read_all(leader)) == 5


def flip(store, position):
    """Damage a byte in the first file of a store's log."""
    with (store.directory / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 0x40]))


def moved_to(group, store):
    """Let this replica lead, and start the old leader again. One that has just come back may not hear that it is to lead: then another one does."""
    for _ in range(MOVES_MAX):
        group.wait_for_set(3)
        old = group.leader()
        if old is store:
            return
        assert old.post(f"/v1/replication/move-leader?to={store.name}")[0] == 202
        assert old.process.wait(60) == EXIT_RESTART
        old.start()
    assert group.leader() is store


def logs_are_equal(group):
    group.wait(
        lambda: len({(store.state()["endOffset"], store.state()["confirmOffset"]) for store in group.stores.values()}) == 1,
        "the logs have other ends",
    )  # fmt: skip
    end = group.leader().state()["endOffset"]
    paths = [store.directory / "commitlog" / f"{0:020d}" for store in group.stores.values()]
    return len({path.read_bytes()[:end] for path in paths}) == 1


def test_a_damaged_record_of_the_leader_is_repaired_from_another_replica_for_one_that_comes_back(group):
    leader = group.leader()
    group.wait_for_set(3)
    other, away = [store for store in group.stores.values() if store is not leader]
    assert away.stop() == 0
    group.wait_for_set(2)
    sender = Sender(leader.port)
    bodies = [b"m%d" % number + bytes(3000) for number in range(20)]
    positions = [int(sender.send(body).read(SendReplyHeader).msg_id[-16:], 16) for body in bodies]
    group.wait(lambda: other.state()["confirmOffset"] > positions[-1], "the follower is behind")
    flip(other, positions[3] + 2000)
    leader.kill()  # what the next leader did not write itself is read from its files
    assert group.leader() is other
    leader.start()
    away.start()
    group.wait_for_set(3)
    assert group.leader() is other
    assert "gantry_store_replica_repaired_records_total 1.0" in other.get("/metrics")[1]["text"]
    assert read_all(other) == bodies
    assert logs_are_equal(group)


def test_a_damaged_record_that_a_pull_meets_is_repaired_before_it_is_answered(group):
    leader = group.leader()
    group.wait_for_set(3)
    sender = Sender(leader.port)
    bodies = [b"m%d" % number + bytes(2000) for number in range(20)]
    positions = [int(sender.send(body).read(SendReplyHeader).msg_id[-16:], 16) for body in bodies]
    follower = next(store for store in group.stores.values() if store is not leader)
    assert follower.stop() == 0
    flip(follower, positions[3] + 1000)
    follower.start()
    moved_to(group, follower)
    group.wait_for_set(3)
    assert read_all(follower) == bodies
    assert logs_are_equal(group)


def test_a_leader_whose_disk_refuses_a_write_ends_so_that_another_one_leads(group):
    leader = group.leader()
    group.wait_for_set(3)
    assert len(send_many(leader, 0, 10)) == 10
    # No write beyond this size: to the store it is an error of the disk.
    resource.prlimit(leader.process.pid, resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    sender = Sender(leader.port)
    assert code_of(sender, bytes(2_000_000)) != 0
    assert leader.process.wait(30) not in {0, EXIT_RESTART}
    assert group.leader() is not leader
    assert len(read_all(group.leader())) == 10


LOST = "A start found that records of this log which were confirmed are damaged. Other replicas have them.\n"
"""What a version wrote that did not note which ones."""


def test_a_replica_that_has_lost_records_leads_only_where_no_other_one_can(group):
    leader = group.leader()
    group.wait_for_set(3)
    sender = Sender(leader.port)
    bodies = [b"m%d" % number for number in range(20)]
    assert all(sender.send(body).code == 0 for body in bodies)
    assert leader.stop() == 0
    (leader.directory / "gantry/lost").write_text(LOST)
    leader.start()
    group.wait_for_set(3)
    second = group.leader()
    assert second is not leader
    assert (leader.directory / "gantry/lost").exists()
    group.wait(lambda: leader.state().get("isFit") is False, "it does not know")
    assert second.post(f"/v1/replication/move-leader?to={leader.name}")[0] == 409
    assert leader.stop() == 0
    leader.start()  # begins at its checkpoint, above the damage
    group.wait(lambda: leader.state().get("isFit") is False, "it has forgotten")
    group.wait_for_set(3)
    second.kill()
    third = group.leader()
    assert third not in {leader, second}
    assert read_all(third) == bodies
    third.kill()
    second.start()
    assert leader.process.wait(60) == EXIT_RESTART  # it alone could lead, and let the next one do so
    assert group.leader() is second
    assert read_all(second) == bodies
