"""Segment files and their sizes."""

import pytest

from broker_store.log.commit_log.segment import load_segments, open_segment
from broker_store.log.errors import LogUnreadable
from broker_store.log.files.names import file_name
from broker_store.log.settings import LogSettings


def test_segments_are_loaded_in_order_and_foreign_names_left_alone(disk):
    disk.make_dirs("/log")
    for start in (8192, 0, 4096):
        open_segment(disk, "/log", start, 4096)
    disk.open("/log/readme", 0)
    assert [(segment.start, segment.end) for segment in load_segments(disk, "/log", 4096)] == [
        (0, 4096), (4096, 8192), (8192, 12288),
    ]  # fmt: skip


def test_a_short_last_file_is_extended_any_other_size_refuses_the_start(disk):
    disk.make_dirs("/log")
    disk.open("/log/" + file_name(0), 4096)
    disk.open("/log/" + file_name(4096), 0)
    assert load_segments(disk, "/log", 4096)[-1].file.size() == 4096
    with pytest.raises(LogUnreadable, match="mappedFileSizeCommitLog"):
        load_segments(disk, "/log", 8192)
    disk.open("/log/" + file_name(8192), 100)
    disk.open("/log/" + file_name(12288), 100)
    with pytest.raises(LogUnreadable, match="100 bytes"):
        load_segments(disk, "/log", 4096)


def test_empty_segments_of_which_a_power_cut_left_the_names_are_extended(disk):
    """A sync of the directory covers the names of segments that were created while the flush before it ran."""
    disk.make_dirs("/log")
    disk.open("/log/" + file_name(0), 4096)
    disk.open("/log/" + file_name(4096), 0)
    disk.open("/log/" + file_name(8192), 0)
    assert [segment.file.size() for segment in load_segments(disk, "/log", 4096)] == [4096, 4096, 4096]


@pytest.mark.parametrize("written", [None, 0, 8191])
@pytest.mark.parametrize("later", [0, 8192])
def test_a_short_segment_is_extended_only_if_nothing_is_written_behind_it(disk, later, written):
    """A crash leaves it while a batch is taken back, between the truncation and the extension."""
    disk.make_dirs("/log")
    disk.open("/log/" + file_name(0), 8192)
    disk.open("/log/" + file_name(8192), 700)
    disk.open("/log/" + file_name(16384), 8192)
    disk.open("/log/" + file_name(24576), later)
    if written is None:
        disk.open("/log/" + file_name(16384)).zero(0, 4096)
        assert [segment.file.size() for segment in load_segments(disk, "/log", 8192)] == [8192] * 4
        return
    disk.write_at("/log/" + file_name(16384), written, b"x")
    with pytest.raises(LogUnreadable, match="700 bytes"):
        load_segments(disk, "/log", 8192)


def test_an_empty_segment_before_a_gap_refuses_the_start(disk):
    disk.make_dirs("/log")
    disk.open("/log/" + file_name(0), 0)
    disk.open("/log/" + file_name(8192), 4096)
    with pytest.raises(LogUnreadable, match="0 bytes"):
        load_segments(disk, "/log", 4096)


@pytest.mark.parametrize(
    "wrong",
    [
        {"segment_bytes": 0}, {"segment_bytes": 1000}, {"queue_file_units": 0}, {"index_slots": 0}, {"index_entries": 1},
        {"prezero_slice_bytes": 100}, {"prezero_bytes": -1},
    ],
)  # fmt: skip
def test_sizes_that_cannot_work_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        LogSettings(**wrong)


def test_default_sizes_are_rocketmqs():
    assert LogSettings().segment_bytes == 1_073_741_824
    assert LogSettings().queue_file_bytes == 6_000_000
