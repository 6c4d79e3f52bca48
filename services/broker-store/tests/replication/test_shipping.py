"""Shipping: one shipment for each write, a bounded window, repeats after losses only, files in a thread and throttled."""

import asyncio

import pytest
from replica_disk import FRESH_BYTES, LOG, content, open_log, send

from broker_store.log.errors import DamagedRecord
from broker_store.log.files.simulated_files import SimulatedFile, SimulatedFiles
from broker_store.replication.messages import Beat, Session
from broker_store.replication.shipping import Shipping, ShippingCalls, ShippingSettings
from broker_store.replication.steps import Ship

SETTINGS = ShippingSettings(
    window_bytes=3000, shipments_max=4, gather_bytes=1000, read_bytes=1500, read_bytes_per_second=1_000_000,
    resend_ms=1000, stuck_ms=5000,
)  # fmt: skip
SESSION = Session("b-1", 7)


class Workers:
    """A thread whose calls end when the test says so."""

    def __init__(self):
        self.calls = []

    def run(self, function, *arguments):
        future = asyncio.get_running_loop().create_future()
        self.calls.append((future, function, arguments))
        return future

    def close(self, *, wait=True): ...

    async def work(self, count=1):
        for future, function, arguments in self.calls[:count]:
            try:
                future.set_result(function(*arguments))
            except Exception as error:  # noqa: BLE001 - as a thread passes it on
                future.set_exception(error)
        del self.calls[:count]
        await asyncio.sleep(0)


class Leader:
    def __init__(self, log, settings=SETTINGS):
        self.log, self.now, self.is_open = log, 1000, True
        self.sent, self.stuck, self.later, self.at_end = [], [], [], []
        self.workers = Workers()
        calls = ShippingCalls(
            lambda session: Beat(session, 1, 1, None, self.now, self.log.min_position), self.send, self.at_turn_end,
            lambda seconds, call: self.later.append((seconds, call)), lambda: self.now, self.workers,
            lambda peer, error: self.stuck.append((peer, type(error))),
        )  # fmt: skip
        self.shipping = Shipping(log, calls, settings)

    def send(self, peer, head, piece):
        if self.is_open:
            self.sent.append((peer, head, piece))
        return self.is_open

    def at_turn_end(self, call):
        if call not in self.at_end:
            self.at_end.append(call)

    def end_turn(self):
        calls, self.at_end = self.at_end, []
        for call in calls:
            call()

    def order(self, position, session=SESSION, peer="b"):
        self.shipping.order(Ship(peer, session, position))
        self.end_turn()

    def take(self):
        """Return position and end of each shipment since the last call."""
        sent, self.sent = self.sent, []
        return [(piece.position, piece.end) for _, _, piece in sent]

    def write(self, *bodies):
        end = send(self.log, *bodies)
        self.shipping.appended()
        return end


@pytest.fixture
def leader():
    return Leader(open_log(SimulatedFiles(), preamble=False))


@pytest.fixture
def anyio_backend():
    return "asyncio"


def test_all_records_of_a_write_leave_as_one_shipment_at_once(leader):
    leader.order(0)
    first = leader.write(b"a" * 100, b"b" * 100, b"c" * 100)
    second = leader.write(b"d")
    assert leader.take() == [(0, first), (first, second)]
    assert leader.workers.calls == []


def test_the_head_is_that_of_the_session_and_of_now(leader):
    leader.order(0)
    leader.now = 1234
    leader.write(b"a")
    assert [(peer, head) for peer, head, _ in leader.sent] == [("b", Beat(SESSION, 1, 1, None, 1234, 0))]


def test_reports_of_one_turn_ship_once_at_its_end(leader):
    ends = [send(leader.log, b"a" * 100) for _ in range(3)]
    leader.shipping.order(Ship("b", SESSION, 0))
    leader.shipping.order(Ship("b", SESSION, 0))
    assert leader.take() == []
    leader.end_turn()
    assert leader.take() == [(0, ends[-1])]


def test_writes_that_wait_become_one_shipment(leader):
    leader.order(0)
    leader.is_open = False
    ends = [leader.write(b"a" * 300) for _ in range(4)]
    leader.is_open = True
    leader.shipping.tick()
    assert leader.take() == [(0, ends[1]), (ends[1], ends[3])]


def test_the_window_bounds_bytes_and_a_report_frees_it(leader):
    leader.order(0)
    ends = [leader.write(b"a" * 900) for _ in range(4)]
    assert leader.take() == [(0, ends[0]), (ends[0], ends[1]), (ends[1], ends[2])]
    leader.order(ends[0])
    assert leader.take() == [(ends[2], ends[3])]
    leader.order(ends[3])
    assert leader.take() == []


def test_the_window_bounds_the_number_of_shipments(leader):
    leader.order(0)
    ends = [leader.write(b"a") for _ in range(6)]
    assert len(leader.take()) == SETTINGS.shipments_max
    leader.order(ends[1])
    assert leader.take() == [(ends[3], ends[5])]


def test_a_piece_larger_than_the_window_leaves_when_nothing_is_in_flight(leader):
    leader.order(0)
    small = leader.write(b"a")
    large = leader.write(b"b" * 3500)
    assert leader.take() == [(0, small)]
    leader.order(small)
    assert leader.take() == [(small, large)]


def test_nothing_is_repeated_to_a_silent_follower_or_while_there_is_progress(leader):
    leader.order(0)
    ends = [leader.write(b"a" * 100) for _ in range(3)]
    leader.take()
    for _ in range(10):
        leader.now += 900
        leader.shipping.tick()
    assert leader.take() == []
    leader.order(ends[0])
    leader.now += 900
    leader.order(ends[1])
    leader.now += 900
    leader.order(ends[1])
    assert leader.take() == []


def test_shipments_are_repeated_when_reports_come_without_progress(leader):
    leader.order(0)
    ends = [leader.write(b"a" * 100) for _ in range(3)]
    leader.order(ends[0])
    leader.take()
    leader.now += 999
    leader.order(ends[0])
    assert leader.take() == []
    leader.now += 1
    leader.order(ends[0])
    assert leader.take() == [(ends[0], ends[2])]


def test_the_time_without_progress_begins_with_the_first_shipment_in_flight(leader):
    leader.order(0)
    leader.now += 60_000
    end = leader.write(b"a")
    leader.order(0)
    assert leader.take() == [(0, end)]


def test_shipments_are_repeated_after_a_lost_connection(leader):
    leader.order(0)
    ends = [leader.write(b"a" * 100) for _ in range(2)]
    leader.take()
    leader.shipping.lost("b")
    leader.shipping.lost("unknown")
    leader.shipping.tick()
    assert leader.take() == [(0, ends[1])]


def test_a_late_arrival_after_going_back_is_not_shipped_again(leader):
    leader.order(0)
    ends = [leader.write(b"a" * 100) for _ in range(2)]
    leader.is_open = False
    leader.shipping.lost("b")
    leader.order(ends[1])
    leader.is_open = True
    leader.shipping.tick()
    assert leader.take() == [(0, ends[0]), (ends[0], ends[1])]
    assert leader.shipping.behind() == {"b": 0}


def test_an_old_report_changes_nothing(leader):
    leader.order(0)
    ends = [leader.write(b"a" * 100) for _ in range(2)]
    leader.order(ends[1])
    leader.take()
    leader.order(ends[0])
    assert leader.take() == []
    assert leader.shipping.behind() == {"b": 0}


def test_a_new_session_begins_where_it_says(leader):
    leader.order(0)
    ends = [leader.write(b"a" * 100) for _ in range(3)]
    leader.order(ends[2])
    leader.take()
    leader.order(ends[0], Session("b-2", 1))
    assert leader.take() == [(ends[0], ends[2])]
    assert leader.shipping.behind() == {"b": ends[2] - ends[0]}


def test_followers_have_windows_of_their_own(leader):
    leader.order(0)
    leader.order(0, peer="c")
    ends = [leader.write(b"a" * 900) for _ in range(4)]
    leader.take()
    leader.order(ends[2], peer="c")
    assert [(peer, piece.position) for peer, _, piece in leader.sent] == [("c", ends[2])]


def filled(leader, count=16):
    """Write more than memory keeps."""
    ends = [send(leader.log, bytes([65 + number]) * 800) for number in range(count)]
    assert ends[-1] > 2 * FRESH_BYTES
    return ends


@pytest.mark.anyio
async def test_a_follower_far_behind_is_read_for_in_a_thread_until_memory_has_its_bytes(leader):
    ends = filled(leader)
    leader.order(0)
    assert leader.take() == []
    position, from_files = 0, 0
    while position < ends[-1]:
        if leader.workers.calls:
            assert len(leader.workers.calls) == 1
            assert leader.workers.calls[0][2] == (position, SETTINGS.read_bytes)
            await leader.workers.work()
            from_files += 1
        for start, end in leader.take():
            assert start == position
            position = end
        leader.order(position)
        for _, call in leader.later:
            leader.now += 2
            call()
        leader.later.clear()
    assert 5 < from_files < 12
    assert leader.shipping.behind() == {"b": 0}


@pytest.mark.anyio
async def test_reads_are_throttled(leader):
    filled(leader)
    leader.shipping = Shipping(
        leader.log,
        leader.shipping._calls,
        ShippingSettings(3000, 4, 1000, 1500, read_bytes_per_second=1000),
    )
    leader.order(0)
    await leader.workers.work()
    ((_, end),) = leader.take()
    leader.order(end)
    leader.order(end)
    assert leader.workers.calls == []
    ((seconds, call),) = leader.later
    assert seconds == pytest.approx(end / 1000, rel=0.01)
    leader.now += int(seconds * 1000) + 1
    call()
    assert len(leader.workers.calls) == 1


@pytest.mark.anyio
async def test_a_read_that_a_new_session_overtook_is_not_shipped(leader):
    ends = filled(leader)
    leader.order(0)
    leader.order(ends[-1], Session("b-2", 1))
    await leader.workers.work()
    assert leader.take() == []


@pytest.mark.anyio
async def test_a_read_that_a_report_overtook_is_not_shipped(leader):
    ends = filled(leader)
    leader.order(0)
    leader.order(ends[-2])
    await leader.workers.work()
    assert leader.take() == [(ends[-2], ends[-1])]


@pytest.mark.anyio
async def test_a_read_waits_for_its_place_in_the_window(leader):
    ends = filled(leader)
    leader.order(0)
    for _ in range(2):
        await leader.workers.work()
        leader.now += 10
        for _, call in leader.later:
            call()
        leader.later.clear()
    assert leader.workers.calls == []
    assert sum(end - start for start, end in leader.take()) <= SETTINGS.window_bytes
    leader.order(ends[0])
    assert len(leader.workers.calls) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("kind", [DamagedRecord, OSError])
async def test_a_follower_whose_bytes_cannot_be_read_is_reported_and_tried_again_later(leader, kind):
    filled(leader)
    log = leader.log
    if kind is DamagedRecord:
        log._files.flip(log.segments[0].path, 200, 1)
    else:

        def broken(_position, _bytes_max):
            raise OSError(5, "broken disk")

        log.read_to_ship = broken
    leader.order(0)
    await leader.workers.work()
    assert leader.stuck == [("b", kind)]
    ((seconds, call),) = leader.later
    assert seconds == SETTINGS.stuck_ms / 1000
    leader.now += SETTINGS.stuck_ms
    call()
    assert len(leader.workers.calls) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("is_read", [False, True])
async def test_a_follower_whose_position_was_deleted_gets_nothing_and_is_not_reported(leader, is_read):
    """A beat says where the log begins. What is in the log still goes to others."""
    ends = filled(leader)
    if is_read:
        leader.order(0)
    delete_first(leader.log)
    leader.order(0)
    assert len(leader.workers.calls) == is_read
    await leader.workers.work()
    leader.shipping.tick()
    assert (leader.take(), leader.stuck, leader.later, leader.workers.calls) == ([], [], [], [])
    leader.order(ends[-2], peer="c")
    assert leader.take() == [(ends[-2], ends[-1])]


def delete_first(log) -> None:
    log.sync()
    log.set_confirm(log.durable_end)
    log.set_visible(log.written_end, log.written_end)
    log.drop_first_segment()
    log.remove_dropped()


@pytest.mark.anyio
async def test_without_a_pace_a_read_follows_the_one_before(leader):
    filled(leader)
    leader.shipping = Shipping(
        leader.log,
        leader.shipping._calls,
        ShippingSettings(3000, 4, 1000, 1500, read_bytes_per_second=0),
    )
    leader.order(0)
    for _ in range(4):
        assert [call[2][0] for call in leader.workers.calls] == [leader.shipping._followers["b"].sent]
        await leader.workers.work()
        ((_, end),) = leader.take()
        leader.order(end)
    assert leader.later == []


@pytest.mark.parametrize("is_synced", [False, True])
def test_what_is_read_of_full_segments_leaves_the_page_cache(leader, is_synced, monkeypatch):
    ends = filled(leader)
    log = leader.log
    if is_synced:
        log.sync()
    dropped = []
    monkeypatch.setattr(
        SimulatedFile, "drop_cached", lambda file, start, size: dropped.append((file.path, start, size))
    )
    wanted, position, tail = [], 0, log.segments[-1]
    while position < ends[-1]:
        piece = log.read_to_ship(position, 1500)
        assert piece == log.read_runs(position, 1500)
        start = position - position % 4096
        if start < tail.start and is_synced:
            wanted.append((f"{LOG}/{start:020d}", position - start, len(piece.data)))
        position = piece.end
    assert dropped == wanted
    assert bool(wanted) == is_synced


@pytest.mark.anyio
async def test_what_is_shipped_makes_the_same_log(leader):
    filled(leader)
    other = SimulatedFiles()
    follower = open_log(other, preamble=False)
    leader.order(0)
    while follower.written_end < leader.log.written_end:
        await leader.workers.work()
        for _, _, piece in leader.sent:
            follower.append_shipped(piece.position, piece.end, piece.data)
        leader.sent.clear()
        leader.now += 100
        for _, call in leader.later:
            call()
        leader.later.clear()
        leader.order(follower.written_end)
    follower.sync()
    leader.log.sync()
    assert content(other) == content(leader.log._files)
