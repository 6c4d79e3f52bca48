"""Pulls (11 and 361): checks, reads and answers them, or holds them until an append or their deadline answers them.

A reply is a head and the log's own bytes. `admission` decides what is allowed, `pull` what is found.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from broker_store.groups.offsets import OffsetTable
from broker_store.groups.pending_resets import PendingResets
from broker_store.log.errors import LogError
from broker_store.metrics.store_metrics import StoreMetrics
from broker_store.ports import (
    ADMITTED,
    Commands,
    InternalAppend,
    InThread,
    LogReader,
    Peer,
    QueueReader,
    QueueTable,
)
from broker_store.reading.filtered.filtered_pulls import ScanReading, Scans
from broker_store.reading.filtered.filtered_scan import Scan
from broker_store.reading.held_pulls import HeldPull, HeldPulls
from broker_store.reading.offset_moved import moved_event
from broker_store.reading.pull import Ask, PullStatus, Selection, reply_code, select
from broker_store.reading.pull_admission import Admission, PullRequest
from broker_store.reading.pull_reading import read_slowly, read_spans
from broker_store.reading.read_settings import ReadSettings
from broker_store.reading.suggestions import suggested_broker
from broker_store.requests.request_classes import RequestClass
from gantry_chassis.logs.structured import get_logger
from gantry_wire.codes import GantryCode, ResponseCode
from gantry_wire.errors import WireError
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_pull_reply_head, encode_response
from gantry_wire.headers.messages import EndPullHeader, PullHeader
from gantry_wire.names import GATEWAY_GROUP, OFFSET_MOVED_TOPIC

FLAG_COMMIT, FLAG_SUSPEND = 1, 2
SUSPEND_MS_MAX = 100_000
"""Longest hold of a pull, whatever it requests: a connection that is silent for 120 s is closed."""

_log = get_logger()


@dataclass(eq=False)
class Pulls:
    """Answers pulls, and holds those that wait."""

    log: LogReader
    queues: QueueTable
    admission: Admission
    offsets: OffsetTable
    resets: PendingResets
    metrics: StoreMetrics
    settings: ReadSettings
    cold_reads: RequestClass
    """Reads take a place here while they wait for the disk."""
    append_internal: InternalAppend
    in_thread: InThread
    now_ms: Callable[[], int]
    broker_name: str
    slaves: Callable[[], Sequence[int]]
    """Returns the broker ids of the followers that can be read now."""

    def __post_init__(self) -> None:
        self._find_queue, self._admit = self.queues.find, self.admission.admit
        self._held_pulls: HeldPulls[PullRequest] = HeldPulls()
        self._woken: list[HeldPull[PullRequest]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._slow: set[asyncio.Task[None]] = set()
        self._scans = Scans(ScanReading(self.log, self.in_thread))

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            11: ("pull", self.handle),
            361: ("litePull", self.handle),
            GantryCode.END_PULL: ("pull", self._end),
        }

    @property
    def held_count(self) -> int:
        """Number of held pulls."""
        return self._held_pulls.count

    def handle(self, peer: Peer, command: Command) -> None:
        """Answer a client's pull, or hold it."""
        header = command.read(PullHeader)
        request = PullRequest(peer, command.opaque, header)
        self._admit(request)
        group, flags = request.group, header.sys_flag
        if group != GATEWAY_GROUP and not header.browse:
            is_reset = self.resets and self.resets.is_pending(group, request.topic, header.queue_id)
            if flags & FLAG_COMMIT and not is_reset:
                # Never back: it may be older than a commit that came over another connection of the client.
                self.offsets.advance(group, request.topic, header.queue_id, header.commit_offset)
            self.offsets.pulled(group, request.topic, header.queue_id, header.queue_offset)
        if command.is_oneway:
            return
        if flags & FLAG_SUSPEND:
            request.admitted = peer.attributes.get(ADMITTED)
        self._pull(request, header.queue_offset, may_hold=bool(flags & FLAG_SUSPEND))

    def _end(self, peer: Peer, command: Command) -> None:
        """Drop a pull that nobody waits for any more. One that was answered, or never held, is no error."""
        self._held_pulls.end(peer.id, command.read(EndPullHeader).wait_id)

    # Arrivals, deadlines, ends

    def arrived(self, topic: str, queue_id: int, first_offset: int, tags_codes: Sequence[int]) -> None:
        """Record readable messages. `answer_arrivals` follows."""
        self._woken += self._held_pulls.wake((topic, queue_id), first_offset, tags_codes)

    def answer_arrivals(self) -> None:
        """Answer the pulls woken since the last call."""
        woken, self._woken = self._woken, []
        self._resume_all(woken, may_hold=True)

    def drop_topic(self, topic: str) -> None:
        """Answer all pulls held on a deleted topic."""
        self._resume_all(self._held_pulls.take_topic(topic))

    def group_reset(self, topic: str, group: str) -> None:
        """Answer the pulls that a group holds on a topic: its offsets were reset."""
        held_pulls = self._held_pulls.take_topic(topic)
        for held in held_pulls:
            if held.request.group != group:
                self._held_pulls.hold(held)
        self._resume_all([held for held in held_pulls if held.request.group == group])

    def close_peer(self, peer_id: int) -> None:
        """Drop the pulls of a closed connection."""
        self._held_pulls.close_peer(peer_id)

    def answer_all(self) -> None:
        """Answer all held pulls before the store stops."""
        self._resume_all(self._held_pulls.take_all())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def close(self) -> None:
        """Answer held pulls and finish running reads."""
        self.answer_all()
        if self._slow:
            await asyncio.wait(self._slow)
        await self._scans.close()

    def _resume_all(self, held_pulls: list[HeldPull[PullRequest]], *, may_hold: bool = False) -> None:
        """Check pulls again. Only a property filter may reject what arrived, and the pull is then held again."""
        for held in held_pulls:
            request = held.request
            try:
                # What was allowed when it was held may not be any more.
                if request.admitted is not None and (refusal := request.admitted.refusal()) is not None:
                    raise refusal
                self._admit(request)
                self._pull(request, held.offset, may_hold=may_hold and request.sql is not None)
            except WireError as error:
                request.peer.send(encode_response(error.code, request.opaque, remark=str(error)))
            except Exception as error:  # noqa: BLE001 - one pull that fails must not leave the others waiting
                _log.exception("held pull failed", topic=request.topic, group=request.group)
                remark = f"{type(error).__name__}: {error}"
                request.peer.send(encode_response(ResponseCode.SYSTEM_ERROR, request.opaque, remark=remark))

    # Reading and answering

    def _pull(self, request: PullRequest, offset: int, *, may_hold: bool) -> None:
        header = request.header
        queue = self._find_queue(request.topic, header.queue_id)
        settings = self.settings
        limits = settings.wide_limits if header.wide else settings.limits
        ask = Ask(offset, header.max_msg_nums, request.wanted, limits)
        selection = select(queue, self.log, ask)
        if self.resets and not header.browse:
            reset = self.resets.take(request.group, request.topic, header.queue_id, header.queue_offset)
            if reset is not None:
                ends = selection.min_offset, selection.max_offset
                selection = Selection(PullStatus.OFFSET_RESET, reset, *ends)
        if queue is None or not selection.spans:
            self._not_found(request, selection, offset, may_hold=may_hold)
            return
        if request.sql is not None:
            self._scan(request, Scan(queue, self.log, ask, request.sql), may_hold=may_hold)
            return
        try:
            parts = read_spans(selection.spans, self.log.read_nowait, selection.claims)
        except (LogError, OSError):
            parts = None  # the slow path finds out why
        if parts is None:
            self._pull_slowly(request, queue, ask, selection)
        else:
            self._found(request, selection, parts)

    def _scan(self, request: PullRequest, scan: Scan, *, may_hold: bool) -> None:
        """Answer a pull with a property filter, now or after enough records."""

        def answer(error: Exception | None) -> None:
            self.cold_reads.leave()
            if error is None:
                self._scanned(request, scan, may_hold=may_hold)
                return
            _log.error(
                "filtered pull failed", topic=request.topic, offset=scan.ask.offset, reason=repr(error)
            )
            remark = f"{type(error).__name__}: {error}"
            request.peer.send(encode_response(ResponseCode.SYSTEM_ERROR, request.opaque, remark=remark))

        self.cold_reads.enter(self.now_ms())
        try:
            is_over = self._scans.run(scan, request.peer.id, lambda: not request.peer.is_closing, answer)
        except Exception:  # disk errors: answer the client and release the place
            self.cold_reads.leave()
            raise
        if is_over:
            answer(None)

    def _scanned(self, request: PullRequest, scan: Scan, *, may_hold: bool) -> None:
        found = scan.found
        if request.peer.is_closing:
            return
        if scan.damaged:
            self._left_out(request, scan.ask.offset, scan.damaged)
        if found.spans:
            self._found(request, found, scan.parts)
        else:
            self._not_found(request, found, found.next_offset, may_hold=may_hold)

    def _found(self, request: PullRequest, selection: Selection, parts: list[bytes]) -> None:
        size, position = selection.size, selection.spans[-1][0]
        head = encode_pull_reply_head(
            0,
            request.opaque,
            selection.next_offset,
            selection.min_offset,
            selection.max_offset,
            self._suggestion(request, position) if self.settings.slave_read_enable else 0,
            "FOUND",
            size,
        )
        request.peer.send_parts([head, *parts])
        behind = None if request.header.browse else self.log.end - position
        self.metrics.on_get(request.topic, request.group, selection.count, size, behind)

    def _not_found(self, request: PullRequest, selection: Selection, offset: int, *, may_hold: bool) -> None:
        header = request.header
        code = reply_code(selection.status, header.queue_offset)
        if code is ResponseCode.PULL_NOT_FOUND:
            if may_hold and selection.next_offset == offset and self._hold(request, offset):
                return
            if offset > header.queue_offset:  # it was held and moved past unwanted messages
                selection.status = PullStatus.NO_MATCHED_MESSAGE
                code = ResponseCode.PULL_RETRY_IMMEDIATELY
        self._answer_nothing(request, code, selection)
        if code is ResponseCode.PULL_OFFSET_MOVED and not header.browse:
            event = moved_event(header, self.broker_name, selection.next_offset)
            self.append_internal(OFFSET_MOVED_TOPIC, 0, event, tags=request.group, keys=request.group)

    def _answer_nothing(self, request: PullRequest, code: ResponseCode, selection: Selection) -> None:
        """Answer without a message."""
        self.metrics.get_misses += 1
        end = self.log.visible_end
        head = encode_pull_reply_head(
            code,
            request.opaque,
            selection.next_offset,
            selection.min_offset,
            selection.max_offset,
            self._suggestion(request, end) if self.settings.slave_read_enable else 0,
            selection.status.name,
            0,
        )
        request.peer.send(head)

    def _suggestion(self, request: PullRequest, position: int) -> int:
        """Return the broker id at which to pull next, after the message at a position. Only where slaves may be read."""
        group = self.admission.group_of(request)
        return suggested_broker(group, self.slaves(), is_far_behind=self._is_far_behind(position))

    def _is_far_behind(self, position: int) -> bool:
        """Whether a message counts as no longer in memory."""
        return self.log.visible_end - position > self.settings.limits.memory_bytes

    def _pull_slowly(self, request: PullRequest, queue: QueueReader, ask: Ask, selection: Selection) -> None:
        self.cold_reads.enter(self.now_ms())
        task = asyncio.ensure_future(self._read_and_answer(request, queue, ask, selection))
        self._slow.add(task)
        task.add_done_callback(self._slow.discard)

    async def _read_and_answer(
        self, request: PullRequest, queue: QueueReader, ask: Ask, selection: Selection
    ) -> None:
        try:
            selection, parts, damaged = await read_slowly(queue, self.log, ask, selection, self.in_thread)
            if damaged:
                self._left_out(request, ask.offset, damaged)
            self.metrics.cold_reads += 1
            if parts:
                self._found(request, selection, parts)
            else:
                self._not_found(request, selection, ask.offset, may_hold=False)
        except Exception as error:  # noqa: BLE001 - answer the client; other pulls continue
            if isinstance(error, OSError):
                _log.error(
                    "a pull failed because the disk did",
                    topic=request.topic,
                    offset=ask.offset,
                    error=str(error),
                )
            else:
                _log.exception("pull failed", topic=request.topic, offset=ask.offset)
            remark = f"{type(error).__name__}: {error}"
            request.peer.send(encode_response(ResponseCode.SYSTEM_ERROR, request.opaque, remark=remark))
        finally:
            self.cold_reads.leave()

    def _left_out(self, request: PullRequest, offset: int, damaged: int) -> None:
        self.metrics.damaged_records += damaged
        queue_id = request.header.queue_id
        _log.error(
            "damaged records are left out of a reply",
            topic=request.topic, queue_id=queue_id, offset=offset, records=damaged,
        )  # fmt: skip

    def _hold(self, request: PullRequest, offset: int) -> bool:
        """Hold the pull. False when it must be answered now."""
        wait_ms = self._hold_ms(request)
        if wait_ms <= 0 or self._held_pulls.is_full or request.peer.is_closing:
            return False
        loop = asyncio.get_running_loop()
        now_ms = int(loop.time() * 1000)
        deadline_ms = request.deadline_ms = request.deadline_ms or now_ms + min(wait_ms, SUSPEND_MS_MAX)
        if deadline_ms <= now_ms:
            return False
        header = request.header
        key = (request.topic, header.queue_id)
        held = HeldPull(key, offset, request.wanted, deadline_ms, request.peer.id, request, header.wait_id)
        self._held_pulls.hold(held)
        if self._timer is None or deadline_ms < self._timer_ms:
            self._set_timer(loop)
        return True

    def _hold_ms(self, request: PullRequest) -> int:
        """Return how long a pull may be held, ms."""
        settings = self.settings
        asked_ms = request.header.suspend_timeout_millis
        return asked_ms if settings.long_polling_enable else settings.short_polling_ms

    def _expire(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        self._resume_all(self._held_pulls.expire(int(loop.time() * 1000)))
        self._set_timer(loop)

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        at_ms = self._held_pulls.next_expiry_ms()
        if at_ms is not None:
            self._timer_ms = at_ms
            self._timer = loop.call_at(at_ms / 1000 + 0.001, self._expire)
