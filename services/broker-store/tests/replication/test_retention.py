"""A follower deletes what its leader has deleted, is confirmed, and is behind its checkpoint: oldest first, durably, once."""

import errno

import pytest
from replica_disk import LOG, Confirms, content, open_log, send

from broker_store.log.errors import LogStopped
from broker_store.log.files.simulated_files import Fault, SimulatedFiles
from broker_store.replication.retention import FollowerRetention

pytestmark = pytest.mark.anyio


class AtOnce:
    async def run(self, function, *arguments):
        return function(*arguments)

    def close(self, *, wait=True): ...


class Follower:
    """A replica with segments of 4096 bytes up to about 30,000, confirmed up to 20,000."""

    def __init__(self):
        self.files = SimulatedFiles()
        self.log = open_log(self.files)
        while self.log.written_end < 30_000:
            send(self.log, b"x" * 1500)
        self.log.sync()
        self.log.set_confirm(20_000)
        self.checkpoint, self.minima = 100_000, []
        self.retention = FollowerRetention(self.log, AtOnce(), lambda: self.checkpoint, self.deleted)

    async def deleted(self, minimum):
        self.minima.append(minimum)

    @property
    def first(self):
        """Where the files begin."""
        return int(next(iter(content(self.files))))


@pytest.mark.parametrize(
    ("leader", "checkpoint", "confirm", "first"),
    [
        (0, 100_000, 20_000, 0), (4095, 100_000, 20_000, 0), (4096, 100_000, 20_000, 4096), (12_287, 100_000, 20_000, 8192),
        (100_000, 8191, 20_000, 4096), (100_000, 100_000, 20_479, 16_384), (100_000, 100_000, 20_480, 16_384),
        (100_000, 100_000, 20_481, 20_480), (12_288, 8192, 20_000, 8192),
    ],
)  # fmt: skip
async def test_the_lowest_of_three_positions_decides(leader, checkpoint, confirm, first):
    follower = Follower()
    follower.checkpoint = checkpoint
    follower.log.set_confirm(confirm)
    follower.retention.leader_begins_at(leader)
    await follower.retention.delete()
    assert follower.first == follower.log.min_position == first
    assert follower.minima == ([first] if first else [])
    assert follower.retention.deleted_segments == first // 4096
    await follower.retention.delete()
    assert len(follower.minima) == (first > 0)


async def test_a_cut_to_the_confirm_offset_leaves_a_log_that_begins_where_it_did():
    """With all that is confirmed deleted, a cut would leave no segment, and the next start would begin elsewhere."""
    follower = Follower()
    follower.log.set_confirm(20_480)
    follower.retention.leader_begins_at(20_480)
    await follower.retention.delete()
    follower.log.cut_back(20_480)
    confirms = Confirms()
    confirms.noted = 20_480
    again = open_log(follower.files.killed(), confirms)
    assert (again.min_position, again.written_end) == (16_384, 20_480)


async def test_a_leader_that_names_a_lower_position_later_changes_nothing():
    follower = Follower()
    follower.retention.leader_begins_at(8192)
    follower.retention.leader_begins_at(4096)
    await follower.retention.delete()
    assert follower.first == 8192


async def test_what_was_deleted_stays_away_after_every_power_cut():
    follower = Follower()
    follower.retention.leader_begins_at(8192)
    await follower.retention.delete()
    for state in follower.files.crash_states(100):
        assert int(next(iter(content(state)))) == 8192


async def test_a_power_cut_in_the_middle_leaves_a_log_without_a_gap():
    follower = Follower()
    follower.files.faults.append(Fault("remove", errno.EIO, f"{8192:020d}"))
    follower.retention.leader_begins_at(16_384)
    with pytest.raises(OSError, match="remove"):
        await follower.retention.delete()
    assert follower.log.min_position == 16_384
    assert [int(name) for name in content(follower.files)][:3] == [8192, 12_288, 16_384]
    for state in follower.files.crash_states(100):
        starts = [int(name) for name in content(state)]
        assert starts == list(range(starts[0], starts[-1] + 1, 4096))
    await follower.retention.delete()
    assert follower.first == 16_384
    assert follower.minima == [16_384]


async def test_a_log_directory_that_cannot_be_synced_stops_the_log():
    follower = Follower()
    follower.files.faults.append(Fault("sync_dir", errno.EIO, "commitlog"))
    follower.retention.leader_begins_at(4096)
    with pytest.raises(OSError, match="sync_dir"):
        await follower.retention.delete()
    with pytest.raises(LogStopped):
        follower.log.sync()


async def test_nothing_is_deleted_while_a_thread_cuts():
    follower = Follower()
    follower.retention.leader_begins_at(8192)
    with follower.log._cutting:
        await follower.retention.delete()
        assert follower.log.min_position == 0
    await follower.retention.delete()
    assert follower.first == 8192


async def test_a_leader_keeps_the_segment_that_holds_the_end_of_what_is_confirmed():
    log = Follower().log
    log.set_visible(log.written_end, log.written_end)
    log.set_confirm(20_480)
    assert log.removable_end == 20_479
    assert log.segments[4].end > log.removable_end
    assert log.segments[3].end <= log.removable_end
    assert LOG in log.drop_first_segment()
