"""A job splits logs only where a record begins, whatever the bodies contain, and reads every record once."""

from itertools import pairwise

import pytest
from logs_made import START_MS
from stores_made import StoreMade

from gantry_spark.source.options import Offsets
from gantry_spark.source.plan import PIECE_BYTES, PIECE_BYTES_MAX, Lost, piece_bytes, plan
from gantry_spark.source.reach import lost_offsets, merge, start_of, stop_of
from gantry_spark.store import snapshot
from gantry_spark.store.boundaries import CLOCK_STEP_MS, QUEUES_ASKED, Boundaries


def made(path, count=200, segment_bytes=4096, forged=False):
    store = StoreMade(path, segment_bytes=segment_bytes, file_units=50)
    for number in range(count):
        store.send("orders", b"b" * (number % 40), queue_id=number % 3, store_ms=START_MS + number * 1000)
    if forged:
        for _ in range(30):
            store.segments[-1].add_forged("orders", queue_offset=0)
    return store


def view_of(store):
    (view,) = snapshot.take([str(store.path)]).stores
    return view


def positions_of(store):
    return [position for segment in store.segments for position in segment.positions]


@pytest.mark.parametrize("partitions", [1, 2, 3, 7, 20, 199, 5000])
def test_any_number_of_partitions_covers_the_log_once_and_cuts_only_between_records(tmp_path, partitions):
    store = made(tmp_path / "broker-a")
    store.write()
    view = view_of(store)
    planned = plan([view], min_partitions=partitions)
    starts = set(positions_of(store)) | {segment.base for segment in store.segments}
    ranges = sorted((part.start, part.stop) for pieces in planned.partitions for part in pieces)
    assert planned.lost == ()
    assert len(planned.partitions) >= min(partitions, 150)
    assert {start for start, _ in ranges} <= starts
    assert ranges[0][0] == 0
    assert ranges[-1][1] == store.end
    assert all(behind == start for (_, behind), (start, _) in pairwise(ranges))
    assert all(
        part.base <= part.start < part.stop <= part.base + 4096
        for pieces in planned.partitions
        for part in pieces
    )


def test_without_queues_the_log_itself_gives_the_boundaries(tmp_path):
    store = made(tmp_path / "broker-a")
    store.write(checkpoint=0)
    finder = Boundaries(view_of(store))
    boundaries = [*positions_of(store), store.end]
    for at in range(0, store.end, 97):
        assert finder.at_or_above(at) == min(position for position in boundaries if position >= at)


def test_the_first_boundary_is_found_among_more_queues_than_are_searched(tmp_path):
    """Otherwise an export or a report that resumes would miss the records before the next position of a long queue."""
    store = StoreMade(tmp_path / "broker-a", segment_bytes=1 << 16)
    for number in range(3 * QUEUES_ASKED):
        store.send(f"long-{number % QUEUES_ASKED}", b"b")
    for number in range(300):
        store.send("rare", b"r" * (number % 20), queue_id=number)
    for number in range(QUEUES_ASKED):
        store.send(f"long-{number}", b"b")
    store.write()
    finder = Boundaries(view_of(store))
    boundaries = [*positions_of(store), store.end]
    for at in range(0, store.end, 89):
        assert finder.at_or_above(at) == min(position for position in boundaries if position >= at)
    assert [finder.at_or_above(at) for at in boundaries] == boundaries


def test_forged_records_in_bodies_are_not_boundaries(tmp_path):
    store = made(tmp_path / "broker-a", segment_bytes=1 << 18, forged=True)
    store.write()
    view = view_of(store)
    assert view.end_position == store.end
    starts = set(positions_of(store))
    for pieces in plan([view], min_partitions=300).partitions:
        assert {part.start for part in pieces} <= starts


def test_partitions_are_few_and_large_and_never_larger_than_a_segment():
    gib = 1 << 30
    assert piece_bytes(500 << 20, 1, 2) == PIECE_BYTES
    assert piece_bytes(gib, 1, 2) == gib // 4
    assert piece_bytes(8 * gib, 1, 2) == PIECE_BYTES_MAX
    assert piece_bytes(8 * gib, 100, 2) == -(-8 * gib // 100)
    assert piece_bytes(0, 1, 2) == 1


def test_small_segments_share_a_partition(tmp_path):
    store = made(tmp_path / "broker-a", segment_bytes=1024)
    store.write()
    (pieces,) = plan([view_of(store)]).partitions
    assert len(pieces) == len(store.segments) > 10


def test_a_range_without_a_segment_is_named(tmp_path):
    store = made(tmp_path / "broker-a")
    path = store.write()
    for segment in (store.segments[0], store.segments[2]):
        (path / "commitlog" / f"{segment.base:020d}").unlink()
    view = view_of(store)
    assert plan([view]).lost == (Lost("broker-a", 2 * 4096, 3 * 4096),)
    assert plan([view], {"broker-a": (100, store.end)}).lost == (
        Lost("broker-a", 100, 4096),
        Lost("broker-a", 8192, 12288),
    )


def test_a_search_by_time_excludes_most_and_nothing_wanted(tmp_path, monkeypatch):
    monkeypatch.setattr("gantry_spark.store.boundaries.NEAR_BYTES", 256)
    store = made(tmp_path / "broker-a")
    store.write()
    view, positions = view_of(store), positions_of(store)
    step = CLOCK_STEP_MS // 1000
    low, high = Boundaries(view).around_time(START_MS + 100_000, START_MS + 110_000)
    assert positions[100 - step - 5] < low <= positions[100 - step]
    assert positions[110 + step] <= high < positions[110 + step + 5]
    assert Boundaries(view).around_time(None, START_MS) == (
        0,
        Boundaries(view).around_time(None, START_MS)[1],
    )


def test_offsets_of_queues_become_a_position_and_bounds(tmp_path):
    store = made(tmp_path / "broker-a")
    store.write()
    view = view_of(store)
    finder = Boundaries(view)
    asked = Offsets(-2, queues={"orders": {"broker-a": {0: 30, 1: -1, 2: 50}}})
    start, bounds = start_of(view, finder, asked, frozenset({"orders"}))
    assert start == store.units["orders", 0][30][0]
    assert bounds == {"orders": {0: (30, None), 1: (67, None), 2: (50, None)}}
    _, ends = stop_of(
        view, finder, Offsets(-1, queues={"orders": {"broker-a": {0: 40, 1: -2}}}), frozenset({"orders"})
    )
    assert merge(bounds, ends) == {"orders": {0: (30, 40), 1: (67, 0), 2: (50, None)}}


def test_unnamed_queues_begin_at_their_lowest(tmp_path):
    store = made(tmp_path / "broker-a")
    store.write()
    view = view_of(store)
    start, bounds = start_of(
        view, Boundaries(view), Offsets(-2, queues={"orders": {"broker-a": {0: 30}}}), frozenset({"orders"})
    )
    assert (start, bounds) == (store.units["orders", 1][0][0], {"orders": {0: (30, None)}})


def test_offsets_that_retention_deleted_are_named(tmp_path):
    store = made(tmp_path / "broker-a")
    path = store.write()
    (path / "commitlog" / f"{0:020d}").unlink()
    view = view_of(store)
    low = view.queues["orders", 0][0]
    assert low > 1
    assert lost_offsets(view, {"orders": {0: (1, None), 1: (60, None)}}) == [
        f"broker-a: orders/0 offsets 1 to {low}"
    ]
