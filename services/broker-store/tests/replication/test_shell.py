"""Whole replicas but the store: role, shell, log, kept file, shipping, register. Leaders die, followers take over, logs are the same."""

import errno

import pytest
from replica_disk import content
from shell_group import Group

from broker_store.log.errors import LogStopped, LogUnreadable
from broker_store.log.files.simulated_files import Fault
from broker_store.replication import copying
from broker_store.replication.frames import MalformedReplication, encode_message
from broker_store.replication.messages import Beat, Session
from broker_store.replication.replica_log import ReplicaLog, ShipmentMisfit
from broker_store.replication.shell import Shell
from broker_store.replication.states import ReplicaState
from broker_store.replication.steps import EndReason, Synced

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def formed(names, **more) -> Group:
    """A group whose set contains all of its replicas."""
    group = Group(names, **more)
    for node in group.nodes.values():
        node.start()
    await group.until(group.is_whole)
    return group


async def traffic(group, steps=20):
    for _ in range(steps):
        group.sends(3)
        await group.clock.run(20)


@pytest.mark.parametrize("names", ["ab", "abc"])
async def test_sends_are_acknowledged_and_all_logs_are_the_same(names):
    group = await formed(names)
    await traffic(group)
    await group.until(group.is_whole)
    assert len(group.acked) == 60
    group.check_identical()
    assert len(group.nodes["a"].log.segments) > 5


async def test_a_single_replica_of_a_set_of_one_acknowledges_alone():
    group = await formed("a", min_in_sync=1)
    await traffic(group, 5)
    await group.until(group.is_whole)
    assert len(group.acked) == 15


@pytest.mark.parametrize("names", ["ab", "abc"])
@pytest.mark.parametrize("power", [False, True])
async def test_a_follower_takes_over_from_a_leader_that_dies_and_comes_back(names, power):
    group = await formed(names, min_in_sync=1 if names == "ab" else 2, seed=3)
    await traffic(group)
    old = group.leader
    acked = len(group.acked)
    old.crash(power=power)
    await group.until(lambda: group.leader is not None and group.leader.accepts)
    assert group.leader is not old
    await traffic(group)
    old.start()
    await group.until(group.is_whole)
    assert len(group.acked) > acked
    group.check_identical()
    assert [len(node.failures) for node in group.nodes.values()] == [0] * len(names)


async def test_an_unconfirmed_tail_of_an_old_leader_is_cut():
    group = await formed("ab", min_in_sync=1)
    await traffic(group)
    old, other = group.leader, group.nodes["b"]
    group.cut = {("a", "b"), ("b", "a")}
    for _ in range(10):
        group.sends(3)
    tail = old.log.written_end
    await group.clock.run(20)
    old.crash(power=False)
    await group.until(lambda: other.accepts)
    await traffic(group, 3)
    group.cut = set()
    old.start()
    assert old.log.written_end == tail
    await group.until(group.is_whole)
    assert old.log.cuts == 1
    group.check_identical()


async def test_a_leader_that_is_cut_off_is_deposed_and_follows():
    group = await formed("abc")
    await traffic(group)
    await group.until(lambda: not any(node.waiting for node in group.nodes.values()))
    old = group.leader
    group.cut = {(old.name, name) for name in group.nodes} | {(name, old.name) for name in group.nodes}
    old.faults.is_away = True
    acked = len(group.acked)
    await group.until(lambda: group.leader is not old and group.leader.accepts)
    assert len(group.acked) == acked
    await traffic(group, 5)
    group.cut, old.faults.is_away = set(), False
    await group.until(group.is_whole)
    assert old.endings == [EndReason.DEPOSED]
    group.check_identical()


async def test_a_replica_that_was_away_catches_up_from_the_files():
    group = await formed("abc")
    away = group.nodes["c"]
    away.crash(power=True)
    await traffic(group, 60)
    away.start()
    await group.until(group.is_whole)
    group.check_identical()
    assert group.leader.shell.shipping.behind() == {"b": 0, "c": 0}


async def test_only_the_lease_lets_a_leader_grant():
    group = await formed("abc")
    leader = group.leader
    await group.until(lambda: leader.shell.may_grant)
    others = [name for name in group.nodes if name != leader.name]
    group.cut = {(name, leader.name) for name in others}
    await group.clock.run(450)
    assert not leader.shell.may_grant


async def test_the_register_away_does_not_disturb_a_whole_group():
    group = await formed("abc")
    for node in group.nodes.values():
        node.faults.is_away = True
    acked = len(group.acked)
    await traffic(group, 30)
    assert len(group.acked) > acked + 60
    assert all("away" in node.shell.register.fault for node in group.nodes.values())
    leader = group.leader
    leader.crash(power=False)
    await group.clock.run(3000)
    assert group.leader is None
    for node in group.nodes.values():
        node.faults.is_away = False
    await group.until(lambda: group.leader is not None and group.leader.accepts)
    leader.start()
    await group.until(group.is_whole)
    group.check_identical()


async def test_lost_replies_of_the_register_are_recognized():
    group = Group("ab", min_in_sync=1)
    for node in group.nodes.values():
        node.faults.replies_lost = 2
        node.start()
    await group.until(group.is_whole)
    await traffic(group, 5)
    await group.until(group.is_whole)
    group.check_identical()
    assert [record.count(b'"epoch":1') for record in group.records.stored] == [1] * len(group.records.stored)


@pytest.mark.parametrize("operation", ["sync", "pwrite"])
async def test_a_follower_whose_disk_fails_ends_and_the_set_shrinks(operation):
    group = await formed("abc")
    broken = group.nodes["b"] if group.leader.name != "b" else group.nodes["c"]
    broken.files.faults.append(Fault(operation, errno.EIO, "commitlog"))
    await traffic(group, 10)
    assert [type(error) for error in broken.failures] == [LogStopped]
    await group.until(lambda: len(group.leader.shell.role.leading.gate.recorded) == 2)
    acked = len(group.acked)
    await traffic(group, 5)
    assert len(group.acked) > acked
    broken.start()
    await group.until(group.is_whole)
    group.check_identical()


async def test_a_sync_without_a_descriptor_is_tried_again():
    group = await formed("ab", min_in_sync=2)
    other = group.nodes["b"]
    other.files.faults.append(Fault("sync_dir", errno.EMFILE, "commitlog", count=3))
    await traffic(group)
    await group.until(group.is_whole)
    assert len(group.acked) == 60
    assert other.files.faults[0].count == 0
    assert other.failures == []


async def test_a_sync_that_began_before_a_cut_reports_nothing_after_it():
    group = await formed("ab", min_in_sync=1)
    await traffic(group)
    await group.until(group.is_whole)
    shell, log = group.nodes["b"].shell, group.nodes["b"].log
    taken, step = [], shell._step
    shell._step = taken.append
    before = shell._sync()
    log.cut_back(log.confirm)
    shell._have_synced(before)
    assert taken == []
    shell._have_synced(shell._sync())
    assert taken == [Synced(log.confirm)]
    shell._step = step


async def test_a_kept_file_that_cannot_be_written_ends_the_replica():
    group = Group("a", min_in_sync=1)
    node = group.nodes["a"]
    node.files.make_dirs("/store/gantry")
    node.files.faults.append(Fault("rename", errno.EIO, "replica"))
    node.start()
    await group.clock.run(1000)
    assert [type(error) for error in node.failures] == [OSError]
    assert node.led == []


async def test_a_leader_with_other_segments_ends_its_followers():
    group = await formed("ab", min_in_sync=1)
    node = group.nodes["b"]
    with pytest.raises(ShipmentMisfit):
        node.log.append_shipped(node.log.written_end, node.log.written_end + 5000, b"x" * 5000)


async def test_strangers_and_malformed_bytes_change_nothing():
    group = await formed("ab", min_in_sync=1)
    shell = group.nodes["b"].shell
    shell.receive(*encode_message("stranger", Beat(Session("x", 1), 99, 99, 99, 99, 0)))
    with pytest.raises(MalformedReplication):
        shell.receive(9063, b"garbage")
    await traffic(group, 2)
    await group.until(group.is_whole)
    await group.until(lambda: shell.role.state is ReplicaState.FOLLOWER)


async def test_a_closed_shell_says_nothing_more():
    group = await formed("ab", min_in_sync=1)
    node = group.nodes["b"]
    sent = []
    group.deliver = lambda *words: sent.append(words[0])
    await node.shell.close()
    node.shell.receive(*encode_message("a", Beat(Session("x", 1), 1, 1, 1, 1, 0)))
    await group.clock.run(2000)
    assert "b" not in sent
    assert not node.shell.may_grant


async def test_followers_delete_what_their_leader_has_deleted_and_nothing_else():
    group = await formed("abc")
    await traffic(group)
    await group.until(group.is_whole)
    leader = group.leader
    followers = [node for node in group.nodes.values() if node is not leader]
    for node in followers:
        node.retention.leader_begins_at(0)
        node.checkpointed = node.confirms.noted
        node.delete()
    await group.clock.run(500)
    assert [node.log.min_position for node in group.nodes.values()] == [0, 0, 0]
    group.retain(2)
    await group.clock.run(500)
    assert [node.log.min_position for node in group.nodes.values()] == [8192] * 3
    assert [next(iter(content(node.files))) for node in group.nodes.values()] == [f"{8192:020d}"] * 3
    leader.crash(power=True)
    await group.until(lambda: group.leader is not None and group.leader.accepts)
    leader.start()
    await group.until(group.is_whole)
    group.check_identical()


async def test_a_follower_keeps_what_its_last_checkpoint_needs():
    group = await formed("ab")
    await traffic(group)
    await group.until(group.is_whole)
    follower = group.nodes["b"]
    group.retain()
    follower.checkpointed = 5000
    await group.clock.run(500)
    assert group.leader.log.min_position > 8192
    assert follower.log.min_position == 4096
    group.retain()
    await group.clock.run(500)
    assert follower.log.min_position == group.leader.log.min_position


async def with_new_replica(**more) -> Group:
    """A group whose third replica has an empty directory, when retention has deleted the beginning of the log."""
    group = Group("abc", **more)
    group.nodes["a"].start()
    group.nodes["b"].start()
    await group.until(lambda: group.leader is not None and group.leader.accepts)
    await traffic(group, 40)
    group.retain(3)
    assert group.begins == 3 * 4096
    group.nodes["c"].start()
    return group


async def test_a_new_replica_begins_where_its_leaders_log_begins_while_sends_are_acknowledged():
    group = await with_new_replica()
    await group.until(lambda: not group.leader.waiting)
    acked = len(group.acked)
    await traffic(group)
    await group.until(group.is_whole)
    new = group.nodes["c"]
    assert new.endings == [EndReason.BEGINS_AGAIN]
    assert new.log.min_position == group.leader.log.min_position == group.begins
    assert len(group.acked) == acked + 60
    group.check_identical()
    assert new.life == 2


@pytest.mark.parametrize("power", [False, True])
async def test_a_new_replica_that_crashes_continues_where_it_was(power):
    group = await with_new_replica()
    new = group.nodes["c"]
    begins = group.begins
    ends = [begins]
    for _ in range(3):
        await group.until(lambda: new.shell is not None and new.log.durable_end > ends[-1])
        ends.append(new.log.durable_end)
        new.crash(power=power)
        new.start()
    assert new.log.min_position == begins
    assert new.log.end >= ends[-1]
    await group.until(group.is_whole)
    assert new.endings == [EndReason.BEGINS_AGAIN]
    group.check_identical()


async def test_a_replica_that_was_away_for_longer_than_retention_begins_again():
    group = await formed("abc")
    away = next(node for node in group.nodes.values() if not node.is_leader)
    await traffic(group, 5)
    await group.until(group.is_whole)
    away.crash(power=True)
    await group.until(lambda: len(group.leader.shell.role.leading.gate.recorded) == 2)
    await traffic(group, 60)
    group.retain()
    assert group.begins > away.log.end
    old = away.log.end
    away.start()
    assert away.log.end == old
    await group.until(group.is_whole)
    assert away.endings == [EndReason.BEGINS_AGAIN]
    assert away.log.min_position == group.begins
    group.check_identical()


async def test_a_learner_whose_position_is_deleted_while_it_copies_begins_again():
    group = await with_new_replica()
    new = group.nodes["c"]
    await group.until(lambda: new.shell is not None and new.log.durable_end > group.begins)
    new.crash(power=False)
    await traffic(group, 60)
    group.retain()
    new.start()
    await group.until(group.is_whole)
    assert new.endings == [EndReason.BEGINS_AGAIN] * 2
    group.check_identical()


async def test_a_replica_that_begins_again_on_its_old_log_is_found(monkeypatch):
    monkeypatch.setattr(copying, "DIRECTORIES", ("consumequeue",))
    group = await formed("abc")
    away = next(node for node in group.nodes.values() if not node.is_leader)
    await traffic(group, 5)
    await group.until(group.is_whole)
    away.crash(power=True)
    await traffic(group, 60)
    group.retain()
    away.start()
    with pytest.raises(LogUnreadable, match="of another log"):
        await group.until(group.is_whole)


async def test_a_life_finds_a_follower_that_deletes_by_itself(monkeypatch):
    drop_below = ReplicaLog.drop_below
    monkeypatch.setattr(ReplicaLog, "drop_below", lambda log, _: drop_below(log, log.confirm))
    with pytest.raises(AssertionError, match="deletes what its leader has"):
        await planted_lives()


async def planted_lives() -> None:
    for seed in range(PLANTED_LIVES):
        await live("abc", seed)


LIVES = 12
PLANTED_LIVES = 8


def disturb(group: Group) -> None:
    """Do one of many things that go wrong, or end them."""
    random, names = group.random, list(group.nodes)
    node = random.choice(list(group.nodes.values()))
    match random.choice(
        ("crash", "crash", "step", "leader", "links", "away", "lossy", "power", "start", "calm")
    ):
        case "crash":
            node.crash(power=random.random() < 0.5)
        case "leader" if group.leader is not None:
            group.leader.crash(power=random.random() < 0.5)
        case "step" if node.shell is not None:
            node.files.crash_after = random.randrange(40)
        case "links":
            group.cut = {(random.choice(names), random.choice(names)) for _ in range(2)}
        case "away":
            node.faults.is_away = random.random() < 0.5
        case "lossy":
            group.lost = random.choice((0, 0.02, 0.2))
        case "power":
            for each in group.nodes.values():
                each.crash(power=True)
            start(group)
        case "start":
            start(group)
        case _:
            group.cut, group.lost, node.faults.is_away = set(), 0, False


def start(group: Group) -> bool:
    for node in group.nodes.values():
        node.start()
    return True


@pytest.mark.parametrize("number", range(LIVES))
async def test_no_acknowledged_byte_is_lost_in_a_life_of_crashes(number, seed):
    await live("abc" if number % 2 else "ab", seed + number)


async def test_a_life_finds_a_replica_that_reports_what_is_not_durable(monkeypatch):
    """Otherwise the lives prove nothing."""
    request_sync = Shell._request_sync

    def too_soon(shell):
        request_sync(shell)
        shell._step(Synced(shell._log.written_end))

    monkeypatch.setattr(Shell, "_request_sync", too_soon)
    with pytest.raises(AssertionError, match=r"acknowledged|assert"):
        await power_cuts()


async def power_cuts() -> None:
    """Cut the power of both replicas while their disks are slow."""
    for seed in range(PLANTED_LIVES):
        group = await formed("ab", seed=seed, disk_ms=300)
        await traffic(group)
        for node in group.nodes.values():
            node.crash(power=True)
        start(group)
        await group.until(group.is_whole)
        group.check_identical()


async def test_slow_disks_and_a_power_cut_of_all_lose_nothing_acknowledged():
    await power_cuts()


async def live(names: str, seed: int) -> None:
    """Each leader checks at its start that it has every acknowledged byte (`Node.leads`)."""
    group = await formed(names, seed=seed, min_in_sync=len(names) - 1, disk_ms=20)
    for _ in range(60):
        await traffic(group, 5)
        disturb(group)
        if group.random.random() < 0.15:
            group.retain(group.random.randrange(1, 20))
    group.cut, group.lost = set(), 0
    for node in group.nodes.values():
        node.faults.is_away, node.files.crash_after = False, None
    await group.until(lambda: start(group) and group.is_whole(), 60)
    acked = len(group.acked)
    await traffic(group)
    await group.until(group.is_whole)
    assert len(group.acked) == acked + 60
    group.check_identical()


async def test_a_connection_over_which_nothing_is_heard_is_renewed_by_both_ends():
    group = await formed("abc")
    leader, deaf = group.leader, next(node for node in group.nodes.values() if node is not group.leader)
    deaf.crash(power=True)
    group.cut = {(leader.name, deaf.name)}
    deaf.start()
    await group.until(lambda: deaf.name in leader.renewed and leader.name in deaf.renewed)
    group.cut = set()
    await group.until(group.is_whole)
