import asyncio
import errno
from datetime import datetime

import pytest
from disk_care_side import MIB, care_of, running
from sending_side import ScriptedPeer, SendingSide
from structlog.testing import capture_logs

from broker_store.config.broker_config import BrokerConfig
from broker_store.config.config_files import DataVersionCounter
from broker_store.log.commit_log.commit_log import LogState
from broker_store.log.files.simulated_files import Fault, SimulatedFiles
from broker_store.process import disk_care, forgetting
from broker_store.process.disk_care import retention_settings
from broker_store.settings import Settings
from broker_store.settling.decided.settled_table import Decision
from gantry_wire.errors import RefusedRequest
from gantry_wire.messages.properties import index_key_hash
from gantry_wire.names import HALF_TOPIC, SCHEDULE_TOPIC
from gantry_wire.records.units import CONSUME_QUEUE_UNIT

pytestmark = pytest.mark.anyio


async def until(condition) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


async def test_old_segments_go_with_their_units_and_never_the_last(monkeypatch):
    monkeypatch.setattr(disk_care, "RETENTION_SECONDS", 0.01)
    every_hour = ";".join(str(hour) for hour in range(24))
    side = SendingSide(segment_bytes=MIB, reserved_hours=1, delete_when=every_hour)
    peer = ScriptedPeer()
    for number in range(14):
        if number == 9:
            side.pass_time(3601)
        side.send(peer, body=b"x" * 250_000, properties={"UNIQ_KEY": f"U{number}"})
        side.flush()
    await side.roll()
    old = [segment.path for segment in side.log.segments]
    assert len(old) == 4
    for path in old[:2]:
        side.files.set_modified_ms(path, side.clock.now_ms() - 3_600_001)
    for path in old[2:]:
        side.files.set_modified_ms(path, side.clock.now_ms())
    care = care_of(side)
    async with running(care.delete_old):
        await until(lambda: care.deleted_segments == 2)
        await asyncio.sleep(0.05)
    assert not any(side.files.exists(path) for path in old[:2])
    assert care.deleted_segments == 2
    queue = side.queues.find("orders", 0)
    assert queue.min_offset == 8
    assert [record.queue_offset for record in side.records()] == list(range(8, 14))
    assert side.store.index.lookup(index_key_hash("orders", "U9"), 0, 1 << 60, 9) == [
        side.records()[1].position
    ]
    again = side.reopen()
    assert [record.queue_offset for record in again.records()] == list(range(8, 14))


async def test_no_segment_is_removed_before_an_older_one_whose_removal_failed():
    side = SendingSide(segment_bytes=MIB, reserved_hours=1)
    peer = ScriptedPeer()
    for number in range(14):
        if number == 9:
            side.pass_time(3601)
        side.send(peer, body=b"x" * 250_000)
        side.flush()
    await side.roll()
    old = [segment.path for segment in side.log.segments[:2]]
    for path in old:
        side.files.set_modified_ms(path, side.clock.now_ms() - 3_600_001)
    side.files.faults.append(Fault("remove", errno.EPERM, old[0], count=2))
    care = care_of(side)
    for _ in range(2):
        with pytest.raises(PermissionError):
            await care.delete_expired()
        assert all(side.files.exists(path) for path in old)
        assert len(side.reopen().records()) == 14
    await care.delete_expired()
    assert not any(side.files.exists(path) for path in old)
    assert side.queues.find("orders", 0).min_offset == 8


async def test_a_power_cut_after_the_removal_of_a_segment_makes_no_start_miss_its_units():
    small = {"segment_bytes": MIB, "queue_file_units": 4}
    side = SendingSide(reserved_hours=1, **small)
    filled_segments(side, young_from=5)
    await side.roll()
    await side.sending.checkpoints.take()
    assert await side.foundation.care.delete_expired() == 1
    assert len(side.files.listdir("/store/consumequeue/orders/0")) == 3
    for left in side.files.crash_states(20):
        again = SendingSide(left, side.wall_s, **small)
        assert again.opening.rebuild_reason is None
        assert [record.queue_offset for record in again.records()] == list(range(4, 14))


@pytest.mark.parametrize(
    ("error", "state"), [(errno.EIO, LogState.STOPPED), (errno.EMFILE, LogState.RUNNING)]
)
async def test_a_failed_sync_of_the_removal_of_a_segment_stops_the_log(error, state):
    side = SendingSide(segment_bytes=MIB, reserved_hours=1)
    filled_segments(side)
    await side.roll()
    side.files.faults.append(Fault("sync_dir", error, "commitlog"))
    care = side.foundation.care
    with pytest.raises(OSError, match="injected"):
        await care.delete_expired()
    assert side.log.state is state
    await care.delete_expired()
    assert side.queues.find("orders", 0).min_offset == 8


def filled_segments(side, young_from=9):
    """Fill four segments. Messages below `young_from` are older than an hour; the files' times say that all are."""
    peer = ScriptedPeer()
    for number in range(14):
        if number == young_from:
            side.pass_time(3601)
        side.send(peer, body=b"x" * 250_000)
        side.flush()
    for segment in side.log.segments:
        side.files.set_modified_ms(segment.path, 0)
    return [segment.path for segment in side.log.segments]


async def test_a_segment_whose_age_a_failed_read_hides_stays_whatever_the_time_of_its_file_says():
    side = SendingSide(segment_bytes=MIB, reserved_hours=1)
    paths = filled_segments(side)
    await side.roll()
    side.files.faults.append(Fault("pread", errno.EIO, paths[3]))
    assert await care_of(side).delete_expired() == 2
    assert [segment.path for segment in side.log.segments[:2]] == paths[2:]


async def test_a_bad_sector_at_the_start_of_a_segment_does_not_keep_the_one_before_it_for_ever():
    side = SendingSide(segment_bytes=MIB, reserved_hours=1)
    paths = filled_segments(side, young_from=13)
    await side.roll()
    side.files.faults.append(Fault("pread", errno.EIO, paths[1], count=100))
    assert await care_of(side).delete_expired() == 3


async def test_a_damaged_item_that_nobody_can_decide_does_not_keep_the_log_for_ever():
    side = SendingSide(segment_bytes=MIB, reserved_hours=1)
    for key in "UV":
        side.send(ScriptedPeer(), properties={"UNIQ_KEY": key, "DELAY": "18"})
    filled_segments(side)
    await side.roll()
    await side.sending.checkpoints.take()
    queue = side.queues.find(SCHEDULE_TOPIC, 17)
    position, size, _ = CONSUME_QUEUE_UNIT.unpack(queue.read(0, 1))
    at = position + side.log.read(position, size).index(b"hi")
    side.files.flip(side.log.segments[0].path, at, 1)
    side = side.reopen(reserved_hours=1)
    care, settled, source = care_of(side), side.store.states.settled, (SCHEDULE_TOPIC, 17, "")
    assert settled.of(source).cursor == 0
    with capture_logs() as logs:
        assert await care.delete_expired() == 0
    assert [log["offset"] for log in logs if log["log_level"] == "error"] == [0]
    assert settled.of(source).cursor == 1, "the message behind it is whole and keeps its segment"
    settled.settle(source, 1, Decision([], "rolled", 0))
    assert await care.delete_expired() == 2


async def test_a_failed_read_decides_no_item():
    side = SendingSide(segment_bytes=MIB, reserved_hours=1)
    side.send(ScriptedPeer(), properties={"UNIQ_KEY": "U", "DELAY": "18"})
    paths = filled_segments(side)
    await side.roll()
    await side.sending.checkpoints.take()
    side = side.reopen(reserved_hours=1)
    side.files.faults.append(Fault("pread", errno.EIO, paths[0], count=100))
    assert await care_of(side).delete_expired() == 0
    assert side.store.states.settled.of((SCHEDULE_TOPIC, 17, "")).cursor == 0


async def test_a_request_deletes_what_is_expired_at_any_hour_by_the_current_retention():
    side = SendingSide(
        segment_bytes=MIB, reserved_hours=48, delete_when=str((datetime.now().astimezone().hour + 12) % 24)
    )
    peer = ScriptedPeer()
    for number in range(10):
        if number == 5:
            side.pass_time(25 * 3600)
        side.send(peer, body=b"x" * 250_000)
        side.flush()
    await side.roll()
    oldest = side.log.segments[0].path
    for segment in side.log.segments:
        side.files.set_modified_ms(segment.path, side.clock.now_ms())
    side.files.set_modified_ms(oldest, side.clock.now_ms() - 25 * 3_600_000)
    care = care_of(side)
    config = BrokerConfig({}, DataVersionCounter(side.clock.now_ms))
    care.retention.bind(config)
    assert await care.delete_expired() == 0
    config.update({"fileReservedTime": "24", "deleteWhen": "04;05", "diskMaxUsedSpaceRatio": "80"})
    assert await care.delete_expired() == 1
    assert not side.files.exists(oldest)
    await care.forget_deleted()
    assert side.queues.find("orders", 0).min_offset > 0
    with pytest.raises(RefusedRequest, match="hours from 0 to 23"):
        config.update({"deleteWhen": "24"})


async def test_a_segment_with_a_half_that_waits_for_its_flush_stays_until_the_half_holds_it(monkeypatch):
    """Under async flush, later messages are visible before the half is."""
    monkeypatch.setattr(SimulatedFiles, "free_bytes", lambda _self, _path: 1)  # deletion is forced
    side = SendingSide(segment_bytes=MIB, flush="async")
    peer = ScriptedPeer()
    side.send(peer, properties={"UNIQ_KEY": "HALF1", "TRAN_MSG": "true", "PGROUP": "pg"})
    for _ in range(9):
        side.end_turn()
        side.send(peer, body=b"x" * 250_000)
    side.end_turn()
    first = side.log.segments[0]
    assert first.end < side.log.visible_end
    care = care_of(side)
    side.store.states.config.clear()  # as if the topics were recorded again in a later segment
    assert await care.delete_expired() == 0
    side.flush()
    side.store.states.config.clear()
    assert await care.delete_expired() == 0
    assert care.roll_below == first.end
    assert len(side.records(HALF_TOPIC)) == 1


@pytest.mark.parametrize("removed", [0, 1], ids=["oldest", "second"])
async def test_a_segment_that_another_program_removed_is_reported_once_and_makes_no_other_expire(removed):
    side = SendingSide(segment_bytes=MIB, reserved_hours=48)
    peer = ScriptedPeer()
    for _ in range(14):
        side.send(peer, body=b"x" * 250_000)
        side.flush()
    await side.roll()
    side.pass_time(24 * 3600)
    paths = [segment.path for segment in side.log.segments]
    for path in paths:
        side.files.set_modified_ms(path, side.clock.now_ms())
    side.files.remove(paths[removed])
    care = care_of(side)
    with capture_logs() as lines:
        for _ in range(3):
            assert await care.delete_expired() == 0
    assert [line["path"] for line in lines] == [paths[removed]]
    assert lines[0]["event"].startswith("another program removed a segment: put the file back")
    assert [segment.path for segment in side.log.segments] == paths


async def test_a_removed_oldest_segment_expires_by_the_store_time_of_the_message_behind_it():
    side = SendingSide(segment_bytes=MIB, reserved_hours=48)
    peer = ScriptedPeer()
    for _ in range(14):
        side.send(peer, body=b"x" * 250_000)
        side.flush()
    await side.roll()
    paths = [segment.path for segment in side.log.segments]
    side.files.remove(paths[0])
    side.pass_time(49 * 3600)
    for path in paths[1:]:
        side.files.set_modified_ms(path, side.clock.now_ms())
    assert await care_of(side).delete_expired() == 1
    assert [segment.path for segment in side.log.segments] == paths[1:]
    assert all(side.files.exists(path) for path in paths[1:])


async def test_a_disk_that_fills_refuses_sends_and_heals_by_itself(monkeypatch):
    monkeypatch.setattr(disk_care, "SPACE_SECONDS", 0.01)
    side = SendingSide(free_bytes_min=8 * MIB, ballast_bytes=MIB)
    peer = ScriptedPeer()
    care = care_of(side)
    async with running(care.watch_space):
        await until(lambda: side.files.exists("/store/gantry/reserve"))
        side.files.capacity = 8 * MIB
        await until(lambda: side.log.state is LogState.DISK_FULL)
        side.send(peer)
        assert peer.answers[0].ext["gantryCode"] == "DISK_FULL"
        side.files.capacity = 1 << 40
        await until(lambda: side.log.state is LogState.RUNNING)
        side.send(peer)
        side.flush()
        assert peer.answers[1].code == 0


async def test_a_full_disk_is_logged_as_an_error_and_the_recovery_as_information(monkeypatch):
    monkeypatch.setattr(disk_care, "SPACE_SECONDS", 0.01)
    side = SendingSide(free_bytes_min=8 * MIB, ballast_bytes=MIB)
    care = care_of(side)
    with capture_logs() as lines:
        async with running(care.watch_space):
            await until(lambda: side.files.exists("/store/gantry/reserve"))
            side.files.capacity = 8 * MIB
            await until(lambda: len(lines) == 1)
            side.files.capacity = 1 << 40
            await until(lambda: len(lines) == 2)
    event = "the state of the log changed"
    assert lines == [
        {"event": event, "was": "running", "now": "disk_full", "log_level": "error"},
        {"event": event, "was": "disk_full", "now": "running", "log_level": "info"},
    ]


async def test_a_write_that_found_no_room_triggers_a_check_at_once(monkeypatch):
    monkeypatch.setattr(disk_care, "SPACE_SECONDS", 3600)
    side = SendingSide(free_bytes_min=MIB, ballast_bytes=MIB)
    care = care_of(side)
    async with running(care.watch_space):
        await until(lambda: side.files.exists("/store/gantry/reserve"))
        side.log.mark_disk_full(full=True)
        care.disk_full_met()
        await until(lambda: not side.files.exists("/store/gantry/reserve"))


def test_settings_become_retentions():
    settings = retention_settings(Settings(reserved_hours=2, delete_when="04;13", disk_ratio_max=60))
    assert settings.keep_ms == 7_200_000
    assert settings.delete_hours == {4, 13}
    assert settings.full_ratio == 0.6
    with pytest.raises(ValueError, match="delete_hours"):
        retention_settings(Settings(delete_when="25"))


async def test_the_walk_over_queues_ends_when_a_topic_is_deleted_between_two_slices():
    side = SendingSide(segment_bytes=MIB)
    peer = ScriptedPeer()
    topics = [f"t{number}" for number in range(3 * forgetting.QUEUES_PER_SLICE)]
    for topic in topics:
        side.queues.open(topic, 0)
        side.send(peer, topic=topic, body=b"x")
    side.flush()
    walk = asyncio.ensure_future(care_of(side).forget_deleted())
    await asyncio.sleep(0)
    for topic in topics[-forgetting.QUEUES_PER_SLICE :]:
        side.queues.remove(topic)
    async with asyncio.timeout(60):
        await walk
    assert not any(side.queues.of_topic(topic) for topic in topics[-forgetting.QUEUES_PER_SLICE :])
