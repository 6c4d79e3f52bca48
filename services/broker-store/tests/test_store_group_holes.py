"""Replicas whose logs have holes, as real processes: they fill them from the others by themselves, also after kills, and lead again."""

import contextlib
import time

import pytest
from group_stores import EXIT_RESTART, Sender, StoreGroup
from nats_nodes import nodes
from test_store_group import read_all
from test_store_group_disks import moved_to

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

MIB = 1024 * 1024
NOT_HERE = 14


@pytest.fixture
def segments(tmp_path):
    """A broker group whose log has segments of 1 MiB."""
    with (
        nodes(tmp_path / "nats", 1) as (node,),
        contextlib.closing(StoreGroup(tmp_path, node.url, servers=1, segment_bytes=MIB)) as group,
    ):
        group.start()
        yield group


def filled_group(group, count, size):
    """Send messages. Return their bodies, and a follower that has them all and was stopped."""
    leader = group.leader()
    group.wait_for_set(3)
    sender = Sender(leader.port)
    bodies = [b"m%d:" % number + bytes([number % 256]) * size for number in range(count)]
    assert all(sender.send(body).code == 0 for body in bodies)
    follower = next(store for store in group.stores.values() if store is not leader)
    end = leader.state()["endOffset"]
    group.wait(lambda: follower.state()["confirmOffset"] >= end, "the follower is behind")
    assert follower.stop() == 0
    return bodies, follower


def segment(store, start):
    return store.directory / "commitlog" / f"{start:020d}"


def overwrite(store, start, position, data):
    """Damage bytes of a segment of a store that does not run."""
    with segment(store, start).open("r+b") as file:
        file.seek(position)
        file.write(data)


def read_whole_log(store):
    """Let the next start read all of the log: it lacks the note of its last checkpoint."""
    for note in store.directory.glob("gantry/queues.json*"):
        note.unlink()


def is_lost(store):
    return (store.directory / "gantry/lost").exists()


def fills(group, store):
    """Wait until a store has filled its log, ended, and is fit again. A supervisor's work is done here."""
    assert store.process.wait(60) == EXIT_RESTART
    store.start()
    group.wait(lambda: not is_lost(store) and store.state().get("isFit") is True, "it is not fit")
    assert store.state()["lostBytes"] == 0
    group.wait(lambda: knows_fit(group.leader(), store), "its leader does not know that it is fit")
    group.wait_for_set(3)


def knows_fit(leader, store):
    return {one["name"]: one["isFit"] for one in leader.state().get("replicas", [])}.get(store.name)


def contents(store, end):
    """Return the bytes of a store's log below `end`, of full segments with what follows their blank."""
    files = sorted((store.directory / "commitlog").glob("[0-9]*"))
    return b"".join(file.read_bytes() for file in files)[:end]


def check_leads_with_all(group, store, bodies):
    end = group.leader().state()["endOffset"]
    group.wait(lambda: store.state().get("endOffset", 0) >= end, "it is behind")
    assert contents(store, end) == contents(group.leader(), end)
    moved_to(group, store)
    assert read_all(store) == bodies
    assert store.state()["isFit"] is True


def test_a_zeroed_range_is_filled_from_another_replica_and_the_replica_leads_with_every_message(group):
    bodies, follower = filled_group(group, 200, 3000)
    overwrite(follower, 0, 100_000, bytes(300_000))
    read_whole_log(follower)
    follower.start()
    fills(group, follower)
    assert "gantry_store_replica_lost_bytes 0.0" in follower.get("/metrics")[1]["text"]
    check_leads_with_all(group, follower, bodies)


def test_segments_that_are_missing_or_without_a_whole_record_are_filled(segments):
    bodies, follower = filled_group(segments, 40, 200_000)
    segment(follower, 2 * MIB).unlink()
    segment(follower, 3 * MIB).unlink()
    overwrite(follower, 5 * MIB, 0, b"\xa5" * MIB)
    read_whole_log(follower)
    follower.start()
    fills(segments, follower)
    check_leads_with_all(segments, follower, bodies)


def test_a_missing_segment_below_the_checkpoint_is_met_by_a_usual_start_and_filled(segments):
    bodies, follower = filled_group(segments, 20, 200_000)
    segment(follower, MIB).unlink()
    follower.start()
    fills(segments, follower)
    check_leads_with_all(segments, follower, bodies)


@pytest.mark.parametrize("count", [2, None])
def test_the_first_segments_are_filled_when_their_files_are_missing(segments, count):
    """No retention has deleted them: the note of how far it has says so. None: all segments are missing."""
    bodies, follower = filled_group(segments, 20, 200_000)
    files = sorted((follower.directory / "commitlog").glob("[0-9]*"))
    for file in files[:count]:
        file.unlink()
    follower.start()
    fills(segments, follower)
    check_leads_with_all(segments, follower, bodies)


def test_a_replica_that_is_killed_while_it_fills_continues(segments):
    bodies, follower = filled_group(segments, 40, 200_000)
    for start in range(MIB, 7 * MIB, MIB):
        overwrite(follower, start, 0, bytes(MIB))
    read_whole_log(follower)
    lost = [5 * MIB]
    for _ in range(2):
        follower.start(copy_bytes_per_second=2 * MIB)
        segments.wait(lambda: 0 < follower.state().get("lostBytes", 0) < lost[-1], "it fills nothing")
        state = follower.state()
        assert state["isFit"] is False
        reader = Sender(follower.port)
        assert reader.pull(0).code == NOT_HERE  # its queues lack messages, which a consumer would pass over
        reader.close()
        assert follower.post("/snapshots")[0] == 503
        lost.append(state["lostBytes"])
        follower.kill()
        assert " to 7340032\n" in (follower.directory / "gantry/lost").read_text()
    follower.start()
    fills(segments, follower)
    check_leads_with_all(segments, follower, bodies)


def test_sends_and_takeovers_continue_while_a_replica_fills(segments):
    bodies, follower = filled_group(segments, 40, 200_000)
    for start in range(MIB, 7 * MIB, MIB):
        overwrite(follower, start, 0, bytes(MIB))
    read_whole_log(follower)
    follower.start(copy_bytes_per_second=2 * MIB)
    segments.wait(lambda: 0 < follower.state().get("lostBytes", 0) < 5 * MIB, "it fills nothing")
    old = segments.leader()
    old.kill()
    assert segments.leader() is not follower
    old.start()
    sender, until = Sender(segments.leader().port), time.monotonic() + 60
    while follower.process.poll() is None and time.monotonic() < until:
        body = b"m%d" % len(bodies)
        if sender.send(body).code == 0:
            bodies.append(body)
        time.sleep(0.05)
    fills(segments, follower)
    check_leads_with_all(segments, follower, bodies)


def test_the_last_segments_are_filled_when_their_files_are_missing(segments):
    bodies, follower = filled_group(segments, 20, 200_000)
    *_, before, last = sorted((follower.directory / "commitlog").glob("[0-9]*"))
    assert last.stat().st_size == MIB
    before.unlink()
    last.unlink()
    follower.start()
    fills(segments, follower)
    check_leads_with_all(segments, follower, bodies)


def test_a_record_that_the_leader_has_lost_too_comes_from_a_third_replica(group):
    bodies, follower = filled_group(group, 200, 3000)
    overwrite(follower, 0, 100_000, bytes(300_000))
    overwrite(group.leader(), 0, 200_000, bytes(50_000))  # what it reads is in its files
    read_whole_log(follower)
    follower.start()
    fills(group, follower)
    check_leads_with_all(group, follower, bodies)


def test_two_replicas_with_other_holes_fill_each_other(tmp_path):
    with (
        nodes(tmp_path / "nats", 1) as (node,),
        contextlib.closing(StoreGroup(tmp_path, node.url, servers=1, names="ab")) as group,
    ):
        group.start()
        leader = group.leader()
        group.wait_for_set(2)
        sender = Sender(leader.port)
        bodies = [b"m%d:" % number + bytes(3000) for number in range(200)]
        assert all(sender.send(body).code == 0 for body in bodies)
        end = leader.state()["endOffset"]
        stores = list(group.stores.values())
        group.wait(lambda: all(store.state()["confirmOffset"] >= end for store in stores), "one is behind")
        for store, start in zip(stores, (100_000, 400_000), strict=True):
            store.kill()
            overwrite(store, 0, start, bytes(150_000))
            read_whole_log(store)
        for store in stores:
            store.start()

        def are_fit():
            group.restart_ended()
            return all(not is_lost(store) and store.state().get("isFit") is True for store in stores)

        group.wait(are_fit, "they are not fit", 120)
        group.wait_for_set(2)
        assert contents(stores[0], end) == contents(stores[1], end)
        for store in stores:
            moved_to_of_two(group, store)
            assert read_all(store) == bodies


def moved_to_of_two(group, store):
    old = group.leader()
    if old is not store:
        group.wait(
            lambda: old.post(f"/v1/replication/move-leader?to={store.name}")[0] == 202, "it does not move"
        )
        assert old.process.wait(60) == EXIT_RESTART
        old.start()
    assert group.leader() is store
    group.wait_for_set(2)
