"""Logs that another program wrote or changed: RocketMQ's rules set the start, and nothing is trusted unchecked."""

import pytest

from broker_store.log.files.real_files import RealFiles
from broker_store.log.files.simulated_files import SimulatedFiles
from broker_store.log.recovery import recovery as recovery_module
from broker_store.log.recovery.recovery import Recovery
from broker_store.log.settings import LogSettings

T0 = 1_700_000_000_000


@pytest.fixture
def foreign(mini, disk):
    """A log of ten segments without Gantry's notes, as RocketMQ leaves it after a clean stop."""
    store = mini(disk).open()
    for number in range(300):
        store.send(b"body %d" % number)
    store.close()
    disk.remove_dir("/store/gantry")
    return disk


def test_after_a_clean_stop_the_last_three_segments_are_walked(mini, foreign):
    store = mini(foreign).open()
    assert store.last.is_clean
    assert store.last.foreign
    assert store.recovery.start == store.log.segments[-3].start > 0
    assert len(store.bodies()) == 300
    assert store.holes == store.cuts == []
    assert store.recovered.end == store.log.confirm


def test_data_of_a_foreign_writer_is_made_durable_before_it_is_served(mini, foreign):
    before = len(foreign.trace)
    store = mini(foreign).open()
    synced = {path for name, path in foreign.trace[before:] if name == "sync"}
    assert {segment.path for segment in store.log.segments[-3:]} <= synced


def test_after_a_crash_the_walk_begins_at_the_newest_segment_older_than_the_checkpoint(mini, foreign):
    foreign.replace_atomically("/store/abort", b"")
    store = mini(foreign)
    assert not store.last.is_clean
    first_times = [_first_ms(segment) for segment in store.log.segments]
    for place, begin_ms in enumerate(first_times):
        for extra, expected in ((3000, place), (2999, max(place - 1, 0))):
            times = store.last.times._replace(
                log_ms=begin_ms + extra, queues_ms=begin_ms + extra, index_ms=begin_ms + extra
            )
            last = _with_times(store.last, times)
            assert Recovery(store.log, last).start == store.log.segments[expected].start


def _first_ms(segment):
    from broker_store.log.commit_log.scan import scan_records

    found = []
    scan_records(segment.file.pread(4096, 0), segment.start, 0, found)
    return found[0][5]


def _with_times(last, times):
    from dataclasses import replace

    return replace(last, times=times)


def test_a_crashed_foreign_log_is_recovered_whole(mini, foreign):
    foreign.replace_atomically("/store/abort", b"4711")
    store = mini(foreign).open()
    assert len(store.bodies()) == 300
    assert store.recovered.end == store.log.confirm > 0


def test_a_log_used_by_another_broker_is_walked_from_our_last_checkpoint_at_the_latest(mini, disk):
    store = mini(disk).open()
    for number in range(100):
        store.send(b"body %d" % number)
    store.take_checkpoint()
    position = store.checkpoint.position
    disk.write_at("/store/checkpoint", 0, (T0 + 10**9).to_bytes(8, "big"))
    disk.write_at("/store/checkpoint", 8, (T0 + 10**9).to_bytes(8, "big") * 2)
    again = mini(disk.killed())
    assert again.last.foreign
    assert again.recovery.start <= position - position % 4096
    again.open()
    assert len(again.bodies()) == 100


def test_a_hint_that_lies_in_no_segment_is_not_followed(mini, disk):
    store = mini(disk).open()
    for number in range(200):
        store.send(b"body %d" % number)
    store.close()
    for segment in store.log.segments[3:]:
        disk.remove(segment.path)
    disk.replace_atomically("/store/abort", b"4711")
    again = mini(disk)
    assert again.recovery.start == 0
    again.open()
    assert set(again.bodies()) == set(range(max(again.bodies()) + 1))


def test_without_any_segment_recovery_begins_where_the_next_one_would(mini, disk):
    store = mini(disk).open()
    store.close()
    disk.remove_dir("/store/gantry")
    assert mini(disk).open().recovered.end == 0


def test_bytes_behind_a_clean_end_are_cut_and_units_that_named_them_go(mini, disk):
    store = mini(disk).open()
    store.send(b"kept")
    position, _ = store.put(b"half a record")
    queue = store.queue("T", 0)
    queue.append(1, position, 91 + 14, 7)
    store.pending.clear()
    store.close()
    disk.write_at("/store/commitlog/" + "0" * 20, position, b"\x00\x00\x00\x69\xda\xa3")
    again = mini(disk).open()
    assert again.last.is_clean
    assert [(cut.position, cut.size) for cut in again.cuts] == [(position, 6)]
    assert again.queue("T", 0).max_offset == 1
    assert again.bodies() == {0: b"kept"}


def test_damage_in_a_log_whose_queues_are_whole_is_resumed_by_their_units_and_punched(mini, disk):
    store = mini(disk).open()
    places = store.send(b"one", b"two", b"three")
    store.take_checkpoint()
    position = store.checkpoint.position
    store.close()
    disk.flip("/store/commitlog/" + "0" * 20, places[1][0] + 3, 0xFF)
    again = mini(disk)
    again.recovery.start = 0  # as for a foreign log: everything is walked while the queues are fully loaded
    again.open()
    (hole,) = again.holes
    assert (hole.start, hole.end, hole.units) == (places[1][0], places[2][0], 1)
    assert again.bodies() == {0: b"one", 2: b"three"}
    assert again.recovered.end == position


def test_a_next_segment_of_zeros_is_no_part_of_the_log(mini, disk):
    store = mini(disk).open()
    store.send(b"kept")
    disk.open(f"/store/commitlog/{4096:020d}", 4096)
    disk.sync_dir("/store/commitlog")
    again = mini(disk.killed()).open()
    assert again.cuts == []
    assert [segment.start for segment in again.log.segments] == [0]


def test_records_larger_than_a_chunk_are_taken_and_checked(mini, disk, monkeypatch):
    monkeypatch.setattr(recovery_module, "CHUNK_BYTES", 200)
    store = mini(disk).open()
    places = store.send(b"a" * 1000, b"b" * 10, b"c" * 600)
    assert mini(disk.killed()).open().bodies() == {0: b"a" * 1000, 1: b"b" * 10, 2: b"c" * 600}
    disk.flip("/store/commitlog/" + "0" * 20, places[2][0] + 400, 1)
    again = mini(disk.killed()).open()
    assert again.bodies() == {0: b"a" * 1000, 1: b"b" * 10}
    assert [hole.end for hole in again.holes] == [store.log.end]


def test_a_blank_with_a_wrong_size_is_damage(mini, disk):
    store = mini(disk).open()
    for number in range(16):
        store.send(b"%04d" % number * 100)
    blank = next(
        at
        for at in range(4096)
        if disk.read_bytes("/store/commitlog/" + "0" * 20)[at + 4 : at + 8] == b"\xcb\xd4\x31\x94"
    )
    disk.flip("/store/commitlog/" + "0" * 20, blank + 3, 1)
    again = mini(disk.killed()).open()
    assert [(hole.start, hole.end) for hole in again.holes] == [(blank, 4096)]
    assert len(again.bodies()) == 16


def test_a_lost_segment_is_resumed_at_the_next_one_even_if_that_begins_damaged(mini, disk):
    store = mini(disk).open()
    for number in range(40):
        store.send(b"%04d" % number * 100)
    disk.remove(f"/store/commitlog/{4096:020d}")
    disk.sync_dir("/store/commitlog")
    disk.flip(f"/store/commitlog/{8192:020d}", 4, 0xFF)
    again = mini(disk.killed()).open()
    assert again.holes[0].start == 4096
    assert again.holes[-1].end > 8192
    kept = {offset for offset in range(40) if _unit_position(store, offset) // 4096 != 1}
    assert set(again.bodies()) == kept


def _unit_position(store, offset):
    return int.from_bytes(store.queue("T", 0).read(offset, 1)[:8], "big")


def test_units_of_removed_segments_need_no_proof(mini, disk):
    store = mini(disk).open()
    store.send(b"rare", queue_id=1)
    for number in range(40):
        store.send(b"%04d" % number * 100)
    store.take_checkpoint()
    for _ in range(2):
        disk.remove(store.log.drop_first_segment())
    again = mini(disk.killed()).open()
    assert again.queue("T", 0).max_offset == 40
    assert again.queue("T", 0).min_offset > 0
    assert (again.queue("T", 1).min_offset, again.queue("T", 1).max_offset) == (1, 1)
    assert set(again.bodies()) == set(range(again.queue("T", 0).min_offset, 40))


def full_segment(disk, build_at):
    """Make a first segment that is used to its last byte, as no Gantry store leaves one, and a second one."""
    disk.make_dirs("/store/commitlog")
    first = build_at("T", 0, 0, 0, b"." * (4096 - 300 - 92))
    last = build_at("T", 0, 1, 4096 - 300, b"last".ljust(300 - 92))
    for start, content in ((0, first + last), (4096, build_at("T", 0, 2, 4096, b"next"))):
        disk.open(f"/store/commitlog/{start:020d}", 4096)
        disk.write_at(f"/store/commitlog/{start:020d}", 0, content)
    assert len(first + last) == 4096


def test_a_segment_may_be_full_to_its_last_byte(mini, disk, build_at):
    full_segment(disk, build_at)
    store = mini(disk).open()
    assert list(store.bodies()) == [0, 1, 2]
    assert store.log.read(4096 - 300, 300 + 96)[300 + 88 :][:4] == b"next"


def test_damage_at_the_end_of_a_full_segment_is_left_behind_with_it(mini, disk, build_at):
    full_segment(disk, build_at)
    store = mini(disk).open()
    disk.flip("/store/commitlog/" + "0" * 20, 4096 - 100, 1)
    again = mini(disk.killed(), rebuild=True).open()
    assert again.bodies().keys() == {0, 2}
    assert [(hole.start, hole.end) for hole in again.holes] == [(4096 - 300, 4096)]
    assert store.recovered.end == again.recovered.end


def test_damage_on_both_sides_of_a_segment_end_is_two_holes(mini, disk, build_at):
    full_segment(disk, build_at)
    store = mini(disk).open()
    store.send(b"after")
    first = store.bodies()[0]
    disk.flip("/store/commitlog/" + "0" * 20, 4096 - 100, 1)
    disk.flip(f"/store/commitlog/{4096:020d}", 88, 1)
    again = mini(disk.killed(), rebuild=True).open()
    assert again.bodies() == {0: first, 3: b"after"}
    assert [(hole.start, hole.end) for hole in again.holes] == [(4096 - 300, 4096), (4096, 4096 + 96)]


def test_neighbours_that_are_both_damaged_are_one_loss(mini, disk):
    store = mini(disk).open()
    places = store.send(b"one", b"two", b"three", b"four")
    for position, _ in places[1:3]:
        disk.flip("/store/commitlog/" + "0" * 20, position + 88, 1)
    again = mini(disk.killed(), rebuild=True).open()
    assert again.bodies() == {0: b"one", 3: b"four"}
    assert (again.holes[0].start, again.holes[-1].end) == (places[1][0], places[3][0])


def test_zeros_written_ahead_of_the_tail_are_no_leftovers(mini, tmp_path):
    sizes = LogSettings(
        segment_bytes=1 << 20, prezero_bytes=256 * 1024, queue_file_units=16, index_slots=64, index_entries=32
    )
    store = mini(RealFiles(), sizes, directory=str(tmp_path)).open()
    store.send(b"one")
    while store.log.prezero.zero_slice():
        pass
    assert store.log.segments[0].file.next_data(100 * 1024) is not None
    store.log.close()
    store.checkpoint.abandon()
    again = mini(RealFiles(), sizes, directory=str(tmp_path)).open()
    assert again.cuts == []
    assert again.bodies() == {0: b"one"}
    again.close()


def test_progress_can_be_shown(mini, disk):
    store = mini(disk).open()
    store.send(b"one")
    again = mini(disk.killed())
    assert again.recovery.target == store.log.confirm
    assert isinstance(disk, SimulatedFiles)
