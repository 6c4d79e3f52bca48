"""Looks after the disk: refuses sends before it is full, deletes old segments, drops expired snapshots."""

import asyncio
from dataclasses import replace
from datetime import datetime

from broker_store.config.broker_config import BrokerConfig
from broker_store.derived import lowest_pin
from broker_store.log.commit_log.commit_log import LogState
from broker_store.log.commit_log.segment import Segment
from broker_store.log.consume_queues.unit_claims import check_record
from broker_store.log.errors import DamagedRecord, LogError
from broker_store.log.retention import DiskUse, RetentionSettings, SegmentAge, Verdict, judge_oldest
from broker_store.log.snapshot import Snapshots
from broker_store.log.space import Space
from broker_store.opening.opened_store import OpenedStore
from broker_store.process.forgetting import forget_before
from broker_store.reading.queries.offset_search import store_ms_at
from broker_store.reading.repaired_reads import RepairAwaited, Repaired, RepairedReads
from broker_store.settings import Settings
from broker_store.settling.decided.mark import Source
from broker_store.settling.decided.settled_table import Decision, Pinned
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Workers

SPACE_SECONDS = 1.0
HOUR_MS = 3_600_000
RETENTION_SECONDS = 10.0
SEGMENTS_PER_ROUND = 10
BEHIND_MAX = 2
"""How many segments behind the oldest may tell its age."""

_HELD = frozenset({Verdict.HELD, Verdict.HELD_BUT_NEEDED})
_log = get_logger()


class LiveRetention:
    """When segments are deleted, by the settings or by code 25."""

    def __init__(self, settings: Settings) -> None:
        self.value = retention_settings(settings)

    def bind(self, config: BrokerConfig) -> None:
        """Let code 25 change these settings."""

        def set_time(hours: int) -> None:
            self.value = replace(self.value, keep_ms=hours * HOUR_MS)

        def set_hours(value: str) -> None:
            self.value = replace(self.value, delete_hours=read_hours(value))

        def set_ratio(percent: int) -> None:
            self.value = replace(self.value, full_ratio=percent / 100)

        config.bind_number("fileReservedTime", set_time)
        config.bind("deleteWhen", set_hours)
        config.bind_number("diskMaxUsedSpaceRatio", set_ratio)


class DiskCare:
    """The loops that keep the disk in order."""

    def __init__(
        self, store: OpenedStore, snapshots: Snapshots, thread: Workers, repaired: Repaired | None
    ) -> None:
        self._store = store
        self._files = store.files
        self._directory = store.directory
        self._log = store.log
        self._states = store.states
        self._events = store.events
        self._snapshots = snapshots
        self._thread = thread
        self._read = RepairedReads(thread.run, repaired)
        self._clock = store.clock
        self._filled_ms: tuple[int, int] = -1, 0
        """The start of a segment, and the store time of its first message: the segments before it were full by then."""
        self._removed: set[str] = set()
        """Segments whose files another program removed. Each is reported once."""
        self._space = Space(store.files, self._directory, store.log)
        self.retention = LiveRetention(store.settings)
        """When segments are deleted. Code 25 may change it."""
        self._logged_state = LogState.RUNNING
        self._wake = asyncio.Event()
        self.deleted_segments = 0
        self.roll_below = 0
        """Undecided items below this position keep an expired segment: their owners must roll them forward.

        0 when none do.
        """

    def disk_full_met(self) -> None:
        """Check at once: a write found no room."""
        self._wake.set()

    def use(self) -> DiskUse:
        """Return the current disk use."""
        return DiskUse(self._files.total_bytes(self._directory), self._files.free_bytes(self._directory))

    def _log_change(self, state: LogState) -> None:
        reason = {"reason": self._log.stop_reason} if state is LogState.STOPPED else {}
        log = _log.info if state is LogState.RUNNING else _log.error
        log("the state of the log changed", was=self._logged_state.value, now=state.value, **reason)
        self._logged_state = state

    async def watch_space(self) -> None:
        """Check free space about once a second. Supervised."""
        while True:
            self._wake.clear()  # before the check, so that a full disk reported meanwhile is not missed
            state = await self._thread.run(self._space.check)
            if state is not self._logged_state:
                self._log_change(state)
            try:
                async with asyncio.timeout(SPACE_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def delete_old(self) -> None:
        """Delete expired segments, or those that must go, a few files per round. Supervised."""
        while True:
            await asyncio.sleep(RETENTION_SECONDS)
            for _ in range(SEGMENTS_PER_ROUND):
                if not await self._delete_oldest():
                    break
            expire = self._snapshots.expire
            await self._thread.run(expire, self._clock.now_ms())

    async def delete_expired(self) -> int:
        """Delete expired segments at any hour. Returns how many.

        Not those that are new meanwhile: with state larger than a segment and a disk that stays full, its records would be appended and
        deleted without end.
        """
        if not self._log.segments:
            return 0
        count, end = 0, self._log.segments[-1].end
        while self._log.segments[0].end <= end and await self._delete_oldest(any_hour=True):
            count += 1
        return count

    async def forget_deleted(self) -> None:
        """Delete the entries of deleted segments from queues and index."""
        await forget_before(self._store, self._log.min_position)

    def _ages(self, now_ms: int) -> list[SegmentAge]:
        """Return the two oldest segments with the latest time each can have been written, by the trusted wall clock.

        The oldest file may have been stamped by a wrong clock. The store time of what follows it is always
        right. Where that is unknown, the oldest counts as written now: only a lack of space deletes it.
        """
        segments = self._log.segments[:2]
        ages = [
            SegmentAge(segment.start, segment.end, self._modified_ms(segment, now_ms)) for segment in segments
        ]
        if len(segments) > 1:
            age_ms = self._full_for_ms()
            is_trusted = ages[0].modified_ms <= now_ms and segments[0].path not in self._removed
            modified_ms = ages[0].modified_ms if is_trusted else 0
            ages[0] = ages[0]._replace(modified_ms=max(modified_ms, now_ms - age_ms))
        return ages

    def _modified_ms(self, segment: Segment, now_ms: int) -> int:
        """Return the last write time of a segment's file. A file removed by another program counts as written now, so it never expires.

        The log itself detects removed files, and stops where a flush would be lost.
        """
        try:
            modified_ms = self._files.modified_ms(segment.path)
        except (FileNotFoundError, NotADirectoryError):
            if segment.path not in self._removed:
                self._removed.add(segment.path)
                _log.error(
                    "another program removed a segment: put the file back, or restart the store if it is gone for good",
                    path=segment.path,
                )
            return now_ms
        self._removed.discard(segment.path)
        return modified_ms

    def _full_for_ms(self) -> int:
        """Return for how long (ms) the oldest segment has been full at least, 0 if no store time behind it is known.

        One unreadable record must not keep a segment for ever: the segment after it is read, too.
        """
        for behind in self._log.segments[1 : 1 + BEHIND_MAX]:
            filled_ms = self._filled(behind)
            if filled_ms > 0 and (age_ms := self._clock.since_ms(filled_ms)) >= 0:
                return age_ms
        return 0

    def _filled(self, behind: Segment) -> int:
        """Return the store time of a segment's first record, 0 or less if it has none yet or cannot be read."""
        start, filled_ms = self._filled_ms
        if start != behind.start or filled_ms <= 0:
            self._filled_ms = behind.start, store_ms_at(self._log, behind.start)
        return self._filled_ms[1]

    async def _delete_oldest(self, *, any_hour: bool = False) -> bool:
        await self._remove_dropped()
        verdict = self._judge_oldest(any_hour=any_hour)
        if verdict in _HELD and await self._pass_damaged(self._log.segments[0].end):
            verdict = self._judge_oldest(any_hour=any_hour)
        if verdict in _HELD:
            await self._events.segment_held(self._log.segments[0].end)
            verdict = self._judge_oldest(any_hour=any_hour)
        self._ask_to_roll(verdict)
        if verdict not in (Verdict.DELETE_EXPIRED, Verdict.DELETE_FORCED):
            return False
        oldest = self._log.segments[0]
        if oldest.end > self._log.removable_end:
            return False
        self._log.drop_first_segment()
        minimum = self._log.min_position
        _log.info("segment deleted", start=oldest.start, why=verdict.value, minimum=minimum)
        self.deleted_segments += 1
        await self._remove_dropped()
        return True

    def _judge_oldest(self, *, any_hour: bool) -> Verdict:
        now_ms = self._clock.trusted_ms()
        hour = datetime.fromtimestamp(self._clock.wall_s()).astimezone().hour
        if any_hour:
            hour = min(self.retention.value.delete_hours)
        held_from = lowest_pin(self._states.all())
        return judge_oldest(self.retention.value, self._ages(now_ms), self.use(), now_ms, hour, held_from)

    async def _remove_dropped(self) -> None:
        """Remove the files of dropped segments and what points into them. Raises OSError; the next call tries again."""
        if not self._log.dropped:
            return
        while self._log.dropped:
            self._removed.discard(await self._thread.run(self._log.remove_dropped))
        await forget_before(self._store, self._log.min_position)

    async def _pass_damaged(self, below: int) -> bool:
        """Count items below a position whose records are damaged as decided. Returns whether there were any.

        Their owners never see them, so they would keep the log for ever. The next start finds the same damage. What another replica
        may have keeps the log: the next call asks for it again.
        """
        settled, has_passed = self._states.settled, False
        for item in settled.pinned():
            topic, queue_id = item.queue.topic, item.queue.queue_id
            source: Source = (topic, queue_id, "")
            if item.position >= below or not await self._is_lost(item):
                continue
            if not settled.is_settled(source, item.offset):  # nor meanwhile: a rollback needs no record
                settled.settle(source, item.offset, Decision([], "damaged", self._clock.now_ms()))
                _log.error(
                    "an undecided item is damaged: it no longer keeps the log",
                    topic=topic, queue_id=queue_id, offset=item.offset, position=item.position,
                )  # fmt: skip
                has_passed = True
        return has_passed

    async def _is_lost(self, item: Pinned) -> bool:
        """Whether a record is damaged here, and no other replica has it."""
        try:
            return await self._read(self._is_damaged, item)
        except RepairAwaited:
            return False

    def _is_damaged(self, item: Pinned) -> bool:
        """Whether the log has no such record. A failed read says nothing of it. Runs in a thread."""
        try:
            data = self._log.read(item.position, item.size)
            if item.offset < item.queue.old_end:
                check_record(item.queue, item.offset, item.position, item.size, data)
        except DamagedRecord:
            return True
        except (LogError, OSError):
            return False
        return False

    def _ask_to_roll(self, verdict: Verdict) -> None:
        roll_below = self._log.segments[0].end if verdict in _HELD else 0
        if roll_below and roll_below != self.roll_below:
            _log.warning(
                "a segment due for deletion holds undecided items, or the only records of users, configuration or offsets",
                end=roll_below,
                why=verdict.value,
            )
        self.roll_below = roll_below


def read_hours(value: str) -> frozenset[int]:
    """Return hours of the day, given as 04;13. Raises ValueError."""
    parts = value.strip().split(";")
    if not all(part.isdecimal() and int(part) <= 23 for part in parts):
        raise ValueError("write hours from 0 to 23, as 04;13")
    return frozenset(int(part) for part in parts)


def retention_settings(settings: Settings) -> RetentionSettings:
    """Return the retention settings. Raises ValueError for an hour that does not exist."""
    return RetentionSettings(
        keep_ms=round(settings.reserved_hours * HOUR_MS),
        delete_hours=frozenset(int(hour) for hour in settings.delete_when.split(";")),
        full_ratio=settings.disk_ratio_max / 100,
        forced_free_bytes=settings.free_bytes_min + 4 * settings.ballast_bytes,
    )
