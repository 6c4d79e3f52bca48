"""Which segment is deleted, and when none may be."""

import pytest

from broker_store.log.retention import DiskUse, RetentionSettings, SegmentAge, Verdict, judge_oldest

GIB = 1 << 30
HOUR = 3_600_000
NOW = 1000 * HOUR
OLD, YOUNG = NOW - 100 * HOUR, NOW - HOUR
ROOMY = DiskUse(100 * GIB, 60 * GIB)


def judge(ages, disk=ROOMY, hour=4, held_from=None, **settings):
    segments = [SegmentAge(GIB * n, GIB * (n + 1), age) for n, age in enumerate(ages)]
    return judge_oldest(RetentionSettings(**settings), segments, disk, NOW, hour, held_from)


def test_expired_segments_go_in_the_deletion_hour_only():
    assert judge([OLD, YOUNG]) is Verdict.DELETE_EXPIRED
    assert judge([OLD, YOUNG], hour=5) is Verdict.KEEP
    assert judge([OLD, YOUNG], hour=5, delete_hours=frozenset({1, 5})) is Verdict.DELETE_EXPIRED
    assert judge([YOUNG, YOUNG]) is Verdict.KEEP
    assert judge([NOW - 72 * HOUR, YOUNG]) is Verdict.KEEP


def test_expired_segments_go_at_any_hour_when_the_disk_is_three_quarters_full():
    assert judge([OLD, YOUNG], DiskUse(100 * GIB, 24 * GIB), hour=12) is Verdict.DELETE_EXPIRED
    assert judge([YOUNG, YOUNG], DiskUse(100 * GIB, 24 * GIB), hour=12) is Verdict.KEEP


def test_young_segments_are_deleted_before_sends_would_be_refused():
    assert judge([YOUNG, YOUNG], DiskUse(100 * GIB, 400 << 20)) is Verdict.DELETE_FORCED
    assert judge([YOUNG, YOUNG], DiskUse(100 * GIB, 14 * GIB), forced_ratio=0.85) is Verdict.DELETE_FORCED


def test_the_newest_segment_never_goes():
    assert judge([OLD], DiskUse(100 * GIB, 0)) is Verdict.KEEP
    assert judge([], DiskUse(100 * GIB, 0)) is Verdict.KEEP


def test_a_segment_with_an_undecided_item_is_held():
    assert judge([OLD, YOUNG], held_from=GIB - 1) is Verdict.HELD
    assert judge([OLD, YOUNG], held_from=GIB) is Verdict.DELETE_EXPIRED
    assert judge([OLD, YOUNG], DiskUse(100 * GIB, 0), held_from=5) is Verdict.HELD_BUT_NEEDED


def test_a_disk_of_unknown_size_counts_as_empty():
    assert DiskUse(0, 0).used_ratio == 0


@pytest.mark.parametrize(
    "wrong", [{"full_ratio": 0}, {"forced_ratio": 1.5}, {"keep_ms": 0}, {"delete_hours": frozenset({24})}]
)
def test_limits_outside_their_range_are_refused(wrong):
    with pytest.raises(ValueError, match=r"ratios|delete_hours"):
        RetentionSettings(**wrong)
