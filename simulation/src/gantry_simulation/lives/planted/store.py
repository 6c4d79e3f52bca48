"""Faults planted in the store. Lives must find each: what they do not find, they do not test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_store.commit.appends import Appends
from broker_store.commit.message import Mode
from broker_store.commit.queues import QueueTable
from broker_store.commit.record_writer import RecordWriter
from broker_store.groups.offset_keeper import OffsetKeeper
from broker_store.groups.offset_log import Answer
from broker_store.groups.offset_rows import Piece, Row
from broker_store.groups.offsets import OffsetTable
from broker_store.log.checkpoint.checkpoint import Checkpoint
from broker_store.log.commit_log.commit_log import CommitLog
from broker_store.log.commit_log.first_read import FirstReadCheck
from broker_store.log.commit_log.scan import Stop
from broker_store.log.commit_log.segment import Segment
from broker_store.log.consume_queues.consume_queue import ConsumeQueue
from broker_store.log.consume_queues.queue_files import QueueFiles
from broker_store.log.index.index_file import LiveIndexFile
from broker_store.log.recovery import recovery
from broker_store.log.recovery.recovery import Recovery
from broker_store.log.recovery.resume import Resume
from broker_store.opening import opening
from broker_store.opening.checkpoints import Checkpoints
from broker_store.opening.queue_saving import QueueSaving
from broker_store.reading.queries.offset_search import Searching
from broker_store.sending.idempotency import Window
from broker_store.sending.key_journal import KeyJournal
from gantry_link.serving.server import RemotingServer
from gantry_simulation.lives.planted.fault import Planted
from gantry_wire.subscription import TagFilter


def _nothing(_right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *_arguments, **_options: None


def _sync_nothing(_right: Callable[..., Any]) -> Callable[..., Any]:
    def sync(log: CommitLog) -> int:
        log.durable_end = log.written_end
        return log.written_end

    return sync


def _ignore_failed_sync(right: Callable[..., Any]) -> Callable[..., Any]:
    def sync(log: CommitLog) -> int:
        segments = log._unsynced  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 - it plants a fault there
        for segment in segments:
            try:
                segment.file.sync()
            except OSError:
                continue
        segments.clear()
        return right(log)

    return sync


def _answer_what_is_written(right: Callable[..., Any]) -> Callable[..., Any]:
    def synced(appends: Appends, _position: int) -> None:
        appends.log.durable_end = appends.log.written_end
        right(appends, appends.log.written_end)

    return synced


def _answer_early(right: Callable[..., Any]) -> Callable[..., Any]:
    def after_write(appends: Appends, start: int, placed: list[Any]) -> None:
        for entry in placed:
            if entry.mode == Mode.SYNC:
                entry.answer(appends.records)
        right(appends, start, placed)

    return after_write


def _confirm_too_far(right: Callable[..., Any]) -> Callable[..., Any]:
    def write_confirm(checkpoint: Checkpoint, position: int) -> None:
        right(checkpoint, position + 4096)

    return write_confirm


def _forget_offsets(right: Callable[..., Any]) -> Callable[..., Any]:
    def remove(queues: QueueTable, topic: str) -> dict[int, int]:
        offsets = right(queues, topic)
        for queue_id in offsets:
            offsets[queue_id] = 0
        return offsets

    return remove


def _one_offset_back(right: Callable[..., Any]) -> Callable[..., Any]:
    def make(queues: QueueTable, topic: str, queue_id: int) -> Any:
        queue = right(queues, topic, queue_id)
        queue.next_offset = max(queue.next_offset - 1, 0)
        return queue

    return make


def _drop_one_record(right: Callable[..., Any]) -> Callable[..., Any]:
    def whole(recovery: Recovery, found: list[Any]) -> int:
        count = right(recovery, found)
        return count - 1 if found[-1][0] >= recovery.confirm and count > 1 else count

    return whole


def _shift_unit(right: Callable[..., Any]) -> Callable[..., Any]:
    def append_all(queue: ConsumeQueue, first: int, positions: Any, sizes: Any, codes: Any) -> None:
        if len(positions) > 1:
            positions = [positions[1], positions[0], *positions[2:]]
            sizes = [sizes[1], sizes[0], *sizes[2:]]
        right(queue, first, positions, sizes, codes)

    return append_all


def _no_saved_keys(_right: Callable[..., Any]) -> Callable[..., Any]:
    def load(_journal: KeyJournal, _window: Window, below: int) -> int:
        return below

    return load


async def _saved(*_arguments: Any) -> None:
    """Save nothing."""


def _stop_at_blanks(right: Callable[..., Any]) -> Callable[..., Any]:
    def walk_slice(segment: Segment, position: int, found: list[Any]) -> Any:
        at, stop, fault = right(segment, position, found)
        return (at, Stop.BAD, "planted") if stop is Stop.BLANK else (at, stop, fault)

    return walk_slice


def _last_entry_missing(right: Callable[..., Any]) -> Callable[..., Any]:
    def put(live: LiveIndexFile, entries: Any) -> int:
        return right(live, entries[:-1]) + 1 if len(entries) > 1 else right(live, entries)

    return put


def _a_millisecond_late(right: Callable[..., Any]) -> Callable[..., Any]:
    async def first(searching: Searching, queue: Any, time_ms: int) -> int:
        return await right(searching, queue, time_ms + 1)

    return first


def _skip_to_confirm(_right: Callable[..., Any]) -> Callable[..., Any]:
    def after(resume: Resume, _bad: int) -> int:
        return resume._confirm  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 - it plants a fault there

    return after


def _commit_back(_right: Callable[..., Any]) -> Callable[..., Any]:
    return OffsetTable.commit


def _answer_commits_early(right: Callable[..., Any]) -> Callable[..., Any]:
    def write(keeper: OffsetKeeper, piece: Piece, answer: Answer) -> None:
        answer(None)
        right(keeper, piece, _ignore)

    return write


def _ignore(_error: OSError | None) -> None:
    """Answer nobody."""


def _first_values(right: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[tuple[OffsetTable, str, str, int], int | None] = {}

    def take(table: OffsetTable, piece: Piece) -> Row:
        topic, group, offsets = right(table, piece)
        rows = {
            queue_id: known.setdefault((table, topic, group, queue_id), offset)
            for queue_id, offset in offsets.items()
        }
        return Row(topic, group, rows)

    return take


def _yes(_right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *_arguments: True


def _numbers_of_its_own(right: Callable[..., Any]) -> Callable[..., Any]:
    def make(server: RemotingServer, *arguments: Any, numbers: Any = None, **options: Any) -> None:
        del numbers
        right(server, *arguments, **options)

    return make


PLANTED = (
    Planted("a flush returns without its sync", CommitLog, "_sync_written", _sync_nothing),
    Planted("a failed sync counts as done", CommitLog, "_sync_written", _ignore_failed_sync),
    Planted("a flush answers what was written after it began", Appends, "synced", _answer_what_is_written),
    Planted("a send is answered before its flush", Appends, "_after_write", _answer_early),
    Planted("names of new segments are not synced", CommitLog, "_sync_names", _nothing),
    Planted("the confirm offset is ahead of the flush", Checkpoint, "write_confirm", _confirm_too_far),
    Planted("a deleted topic's offsets begin at 0", QueueTable, "remove", _forget_offsets),
    Planted("a queue continues one offset too early", QueueTable, "_make", _one_offset_back),
    Planted("a refused batch keeps its offsets", RecordWriter, "_take_back", _nothing),
    Planted("recovery drops the last record", Recovery, "_whole", _drop_one_record),
    Planted("recovery trusts the page cache", Recovery, "_reread", _nothing),
    Planted("queue units of a batch are exchanged", ConsumeQueue, "append_all", _shift_unit),
    Planted("a checkpoint saves no queue", QueueSaving, "save", lambda _right: _saved),
    Planted("each port numbers its own connections", RemotingServer, "__init__", _numbers_of_its_own),
    Planted("keys are not remembered", Window, "remember", _nothing),
    Planted("saved keys are not loaded", KeyJournal, "load", _no_saved_keys),
    Planted("recovery stops at the end of a segment", recovery, "walk_slice", _stop_at_blanks),
    Planted("recovery skips all behind a damaged record", Resume, "after", _skip_to_confirm),
    Planted("damaged records are delivered", FirstReadCheck, "check", _nothing),
    Planted("damage is not reported", opening, "report", _nothing),
    Planted("the index misses the last entry of a batch", LiveIndexFile, "put", _last_entry_missing),
    Planted("times are searched a millisecond late", Searching, "_first_at_or_after", _a_millisecond_late),
    Planted("a tag filter lets everything pass", TagFilter, "matches", _yes),
    Planted("commits are answered before they are durable", OffsetKeeper, "_write", _answer_commits_early),
    Planted("a record of offsets has the values of the first commit", OffsetTable, "take", _first_values),
    Planted("an offset that a pull carries sets a group back", OffsetTable, "advance", _commit_back),
    Planted("a checkpoint does not sync the log", Checkpoints, "_sync_log", _nothing),
    Planted("the directories of new queues are not synced", QueueFiles, "note_new_directory", _nothing),
)
