"""Which segment may be deleted, and why. Pure: takes ages, hours and free space, returns one decision."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

_HOUR_MS = 3_600_000


class SegmentAge(NamedTuple):
    """A segment as retention sees it."""

    start: int
    end: int
    modified_ms: int


class DiskUse(NamedTuple):
    """Space of the file system that holds the log."""

    total_bytes: int
    free_bytes: int

    @property
    def used_ratio(self) -> float:
        """Used share, 0 to 1."""
        return 1 - self.free_bytes / self.total_bytes if self.total_bytes else 0.0


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """When segments are deleted. Ratios are shares of 1."""

    keep_ms: int = 72 * _HOUR_MS
    delete_hours: frozenset[int] = frozenset({4})
    """Hours of the local day in which expired segments are deleted."""
    full_ratio: float = 0.75
    """Above this use, expired segments are deleted at any hour."""
    forced_ratio: float = 1.0
    """Above this use, segments are deleted at any age. RocketMQ has 0.85; here only free bytes force it."""
    forced_free_bytes: int = 448 * 1024 * 1024
    """Below this much free space, segments are deleted at any age, before sends would be refused."""

    def __post_init__(self) -> None:
        """Refuse limits outside their range."""
        if not 0 < self.full_ratio <= 1 or not 0 < self.forced_ratio <= 1 or self.keep_ms <= 0:
            raise ValueError("ratios lie above 0 and up to 1, and keep_ms is positive")
        if any(not 0 <= hour <= 23 for hour in self.delete_hours):
            raise ValueError("delete_hours lie in 0..23")


class Verdict(Enum):
    """Decision about the oldest segment."""

    KEEP = "keep"
    DELETE_EXPIRED = "expired"
    DELETE_FORCED = "forced"
    HELD = "held"
    """Expired, but it holds an undecided item: the owner must roll it forward."""
    HELD_BUT_NEEDED = "held but needed"
    """Its space is needed too: refuse sends rather than drop the item."""


def judge_oldest(
    settings: RetentionSettings,
    segments: Sequence[SegmentAge],
    disk: DiskUse,
    now_ms: int,
    local_hour: int,
    held_from: int | None = None,
) -> Verdict:
    """Judge the oldest segment. Call again after each deletion. The newest is never deleted.

    `held_from` is the lowest position of an undecided item of a system queue, None if there is none.
    """
    if len(segments) < 2:
        return Verdict.KEEP
    oldest = segments[0]
    forced = disk.used_ratio > settings.forced_ratio or disk.free_bytes < settings.forced_free_bytes
    may_expire = local_hour in settings.delete_hours or disk.used_ratio > settings.full_ratio
    expired = may_expire and now_ms - oldest.modified_ms > settings.keep_ms
    if not forced and not expired:
        return Verdict.KEEP
    if held_from is not None and held_from < oldest.end:
        return Verdict.HELD_BUT_NEEDED if forced else Verdict.HELD
    return Verdict.DELETE_FORCED if forced else Verdict.DELETE_EXPIRED
