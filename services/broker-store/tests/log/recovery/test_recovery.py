"""Opening a log after every kind of end: nothing acknowledged is lost, and only a prefix and holes result."""

import contextlib
import errno

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker_store.log.errors import LogStopped, LogUnreadable
from broker_store.log.files.simulated_files import Crashed, Fault, SimulatedFiles
from broker_store.log.recovery.recovery import Found


def test_an_empty_directory_becomes_an_empty_log(mini, disk):
    store = mini(disk).open()
    assert (store.recovered.end, store.holes, store.cuts) == (0, [], [])
    preamble_bytes = 91 + len("SYS") + len("offsets")
    assert store.send(b"first") == [(preamble_bytes, 0)]
    assert store.bodies() == {0: b"first"}


def test_a_clean_stop_is_opened_again_without_walking(mini, disk):
    store = mini(disk).open()
    store.send(b"one", b"two")
    store.close()
    again = mini(disk).open()
    assert again.last.is_clean
    assert again.found == []
    assert again.bodies() == {0: b"one", 1: b"two"}
    again.send(b"three")
    assert again.bodies() == {0: b"one", 1: b"two", 2: b"three"}


def test_kill_keeps_every_written_record_over_segments(mini, disk):
    store = mini(disk).open()
    for number in range(60):
        store.send(b"body-%d" % number)
        if number == 30:
            store.take_checkpoint()
    assert len(store.log.segments) > 1
    again = mini(disk.killed()).open()
    assert not again.last.is_clean
    assert again.bodies() == {number: b"body-%d" % number for number in range(60)}
    assert 0 < len(again.found) < 60, "recovery starts at the checkpoint"
    assert again.holes == again.cuts == []


def test_written_but_unsynced_records_survive_a_kill_but_may_go_in_a_power_cut(mini, disk):
    store = mini(disk).open()
    store.send(b"acked")
    store.put(b"unsynced")
    store.log.write()
    assert mini(disk.killed()).open().bodies() == {0: b"acked", 1: b"unsynced"}
    ends = {tuple(mini(state).open().bodies().values()) for state in disk.crash_states(200)}
    assert ends == {(b"acked",), (b"acked", b"unsynced")}


def test_a_segment_that_a_kill_left_without_a_durable_name_survives_a_later_power_cut(mini, disk):
    store = mini(disk).open()
    store.send(b"acked")
    count = 0
    while len(store.log.segments) < 2:
        store.put(b"%03d" % count * 100)
        store.log.write()
        count += 1
    again = mini(disk).open()  # after a kill; the disk still knows what is not synced
    again.send(b"acked after the kill")
    bodies = again.bodies()
    assert len(bodies) == count + 2
    for state in disk.crash_states(200):
        assert mini(state).open().bodies() == bodies


def check_crash_states(mini, disk, acked, maybe, states):
    """Check every legal state after a power cut: everything acknowledged, then a prefix of the rest, in order."""
    for number, state in enumerate(disk.crash_states(states)):
        store = mini(state).open()
        bodies = list(store.bodies().values())
        assert store.holes == []
        assert bodies[: len(acked)] == acked, f"state {number}"
        assert bodies == (acked + maybe)[: len(bodies)], f"state {number}"
        store.send(b"after")
        assert list(store.bodies().values()) == [*bodies, b"after"]
        assert mini(state.killed()).open().bodies() == store.bodies()


def test_every_crash_state_of_a_batch_keeps_what_was_acknowledged(mini, disk):
    store = mini(disk).open()
    store.send(b"a" * 300)
    store.send(b"b" * 900)
    for body in (b"c" * 500, b"d" * 700, b"e" * 10):
        store.put(body)
    store.log.write()
    check_crash_states(mini, disk, [b"a" * 300, b"b" * 900], [b"c" * 500, b"d" * 700, b"e" * 10], 5000)


def test_every_crash_state_of_a_batch_across_a_segment_keeps_what_was_acknowledged(mini, disk):
    store = mini(disk).open()
    acked = [b"%04d" % number * 100 for number in range(8)]
    for body in acked:
        store.send(body)
    maybe = [b"x" * 300, b"y" * 300, b"z" * 200]
    segments = len(store.log.segments)
    for body in maybe:
        store.put(body)
    assert len(store.log.segments) == segments + 1
    store.log.write()
    check_crash_states(mini, disk, acked, maybe, 300)


def test_every_crash_state_during_a_checkpoint_keeps_what_was_acknowledged(mini, disk):
    store = mini(disk).open()
    acked = [b"%04d" % number * 20 for number in range(20)]
    for body in acked[:10]:
        store.send(body)
    store.take_checkpoint()
    for body in acked[10:]:
        store.send(body)
    trace = len(disk.trace)
    store.take_checkpoint()
    steps = len(disk.trace) - trace
    assert steps > 10
    for step in range(steps):
        fresh = SimulatedFiles()
        store = mini(fresh).open()
        for body in acked[:10]:
            store.send(body)
        store.take_checkpoint()
        for body in acked[10:]:
            store.send(body)
        fresh.crash_after = step
        with pytest.raises(Crashed):
            store.take_checkpoint()
        fresh.crash_after = None
        for state in fresh.crash_states(40, seed=step):
            again = mini(state).open()
            assert list(again.bodies().values()) == acked
            assert again.holes == []


def test_a_crash_while_recovery_cuts_several_segments_leaves_a_log_that_opens(mini):
    """A last write reached the second and third segment only, so that a short first one would have files behind it."""

    def torn_disk():
        disk = SimulatedFiles()
        store = mini(disk).open()
        (first,) = store.send(b"acked")
        for body in (b"x" * 3000, b"y" * 3000, b"z" * 3000):
            store.put(body)
        store.log.write()
        disk.flip("/store/commitlog/" + "0" * 20, store.log.confirm + 100, 1)
        assert len(store.log.segments) > 2
        return disk.killed(), first

    step, is_over = 0, False
    while not is_over:
        disk, first = torn_disk()
        store = mini(disk)
        disk.crash_after = step
        try:
            store.open()
            is_over = True
        except Crashed:
            step += 1
        for state in disk.crash_states(20, seed=step):
            again = mini(state).open()
            assert again.bodies() == {first[1]: b"acked"}
    assert ("remove", "/store/commitlog/" + f"{8192:020d}") in disk.trace


def test_every_crash_state_during_opening_and_during_recovery_loses_nothing(mini):
    def crashed_store():
        disk = SimulatedFiles()
        store = mini(disk).open()
        for number in range(12):
            store.send(b"%d" % number)
        store.put(b"unacked")
        store.log.write()
        (state,) = list(disk.crash_states(10_000))[-1:]
        return state

    probe = crashed_store()
    mini(probe).open()
    for step in range(len(probe.trace)):
        disk = crashed_store()
        disk.crash_after = step
        with contextlib.suppress(Crashed):
            mini(disk).open()
        disk.crash_after = None
        for state in disk.crash_states(10, seed=step):
            again = mini(state).open()
            assert list(again.bodies().values())[:12] == [b"%d" % number for number in range(12)]
            assert again.holes == []


def test_a_torn_tail_is_cut_zeroed_and_its_size_reported(mini, disk):
    store = mini(disk).open()
    store.send(b"kept")
    end = store.log.end
    disk.write_at("/store/commitlog/" + "0" * 20, end, b"garbage!" * 5)
    again = mini(disk.killed()).open()
    (cut,) = again.cuts
    assert (cut.position, cut.size) == (end, 40)
    assert again.recovered.end == end
    assert not any(again.files.read_bytes("/store/commitlog/" + "0" * 20)[end:])


def test_a_segment_with_only_part_of_its_preamble_is_removed(mini, disk, build_at):
    store = mini(disk).open()
    for number in range(8):
        store.send(b"%04d" % number * 100)
    confirm = store.log.confirm
    while store.log.end < 4096:
        store.put(b"." * 300)
    store.log.write()
    files = disk.killed()
    path = f"/store/commitlog/{4096:020d}"
    preamble = 91 + len("SYS") + len("offsets")
    files.write_at(path, preamble, bytes(4096 - preamble))
    again = mini(files).open()
    assert confirm <= 4096
    assert again.recovered.end == 4096
    assert again.cuts[0].fault == "the preamble of its segment is incomplete"
    assert [segment.start for segment in again.log.segments] == [0]
    again.send(b"after")
    assert [again.log.read_record(4096)[88:95], again.log.segments[-1].start] == [b"offsets", 4096]


def test_after_a_failed_flush_the_next_start_trusts_the_device_only(mini, disk):
    store = mini(disk).open()
    store.send(b"acked")
    store.put(b"never reached the device")
    store.log.write()
    disk.faults.append(Fault("sync", errno.EIO, "commitlog"))
    with pytest.raises(LogStopped):
        store.log.sync()
    with pytest.raises(LogStopped):
        store.log.sync()
    with pytest.raises(LogStopped):
        store.put(b"x")
    again = mini(disk).open()  # the same machine: its page cache still holds the lost bytes
    assert again.bodies() == {0: b"acked"}


def test_a_lost_abort_file_does_not_make_the_page_cache_trusted(mini, disk):
    """It looks as if RocketMQ had run and stopped in order, after a run of ours whose flush had failed."""
    store = mini(disk).open()
    store.send(b"acked")
    store.put(b"never reached the device")
    store.log.write()
    _, _, offset, position, size, _ = store.pending[0]
    store.queue("T", 0).append(offset, position, size, 7)  # under async flush, units precede the flush
    store.queue("T", 0).sync()
    disk.faults.append(Fault("sync", errno.EIO, "commitlog"))
    with pytest.raises(LogStopped):
        store.log.sync()
    disk.remove("/store/abort")
    again = mini(disk).open()  # the same machine: its page cache still holds the lost bytes
    assert (again.last.is_clean, again.last.foreign) == (True, "the abort file of our last run was removed")
    assert again.bodies() == {0: b"acked"}
    assert again.queue("T", 0).max_offset == 1
    state = next(iter(disk.crash_states(100)))
    assert mini(state).open().bodies() == {0: b"acked"}


def test_a_disk_that_refuses_to_sync_at_opening_is_refused(mini, disk):
    store = mini(disk).open()
    store.send(b"acked")
    files = disk.killed()
    files.faults.append(Fault("sync", errno.EIO, "commitlog/0"))
    with pytest.raises(LogUnreadable, match="check the disk"):
        mini(files).open()


def test_a_full_rebuild_makes_equal_queues_and_serves_reads_between_slices(mini, disk):
    store = mini(disk).open()
    for number in range(100):
        store.send(b"%d" % number, queue_id=number % 3)
    expected = {key: store.bodies(*key) for key in store.queues}
    store.close()
    disk.remove_dir("/store/consumequeue")
    disk.remove_dir("/store/index")
    again = mini(disk, rebuild=True)
    read = 0
    for event in again.steps():
        if isinstance(event, Found):
            position, size = event.records[0][:2]
            assert len(again.log.read(position, size)) == size
            read += 1
    assert read > 1
    assert {key: again.bodies(*key) for key in again.queues} == expected
    assert again.index.entries == 100 + len(again.log.segments)


def test_queues_of_a_crash_hold_no_unit_above_the_end(mini, disk):
    store = mini(disk).open()
    store.send(b"kept")
    store.take_checkpoint()
    store.put(b"lost")
    store.log.write()
    queue = store.queue("T", 0)
    queue.append(1, store.pending[0][3], store.pending[0][4], 7)
    queue.sync()  # a unit that is durable before its record: only a power cut in async mode leaves that
    state = next(iter(disk.crash_states(100)))
    again = mini(state).open()
    assert again.bodies() == {0: b"kept"}
    assert again.queue("T", 0).max_offset == 1
    content = again.files.read_bytes("/store/consumequeue/T/0/" + "0" * 20)
    assert not any(content[20:])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keep=st.integers(0, 4096), garbage=st.binary(max_size=40))
def test_any_prefix_above_the_confirm_offset_gives_a_prefix_of_the_records(mini, keep, garbage):
    disk = SimulatedFiles()
    store = mini(disk).open()
    acked = [b"acked %d" % number for number in range(5)]
    for body in acked:
        store.send(body)
    confirm = store.log.confirm
    maybe = [b"maybe %d" % number for number in range(12)]
    for body in maybe:
        store.put(body)
    store.log.write()
    keep = max(keep, confirm)
    path = "/store/commitlog/" + "0" * 20
    files = disk.killed()
    rest = garbage.ljust(4096 - keep, b"\0")[: 4096 - keep]
    files.write_at(path, keep, rest)
    again = mini(files).open()
    seen = list(again.bodies().values())
    assert seen[:5] == acked
    assert seen == (acked + maybe)[: len(seen)]
    assert again.holes == []
