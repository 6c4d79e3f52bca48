"""A term continues with the rows of an earlier one if the store's log confirms them; otherwise it rebuilds them."""

import sqlite3
from dataclasses import replace
from time import monotonic

import pytest
from read_to import ReadTo
from schedule_records import record

from gantry_chassis.machine.environment import machine
from gantry_link.clients.store import Pulled
from gantry_wire.names import SCHEDULE_TOPIC, TIMER_TOPIC
from scheduler.filling.resuming import resume
from scheduler.index.due_queue_names import DELAYS, INSTANTS, due_queue_of
from scheduler.index.due_queues import DueQueues
from scheduler.index.entries import TIMER, entry_of, queue_of, scan_items
from scheduler.index.kept_rows import made_for
from scheduler.index.known_offsets import QueueState
from scheduler.index.sqlite_index import SqliteIndex
from scheduler.index.store_clock import StoreClock

pytestmark = pytest.mark.anyio
NOW_MS = 1_700_000_000_000
LEVEL_MS = (3_600_000,)
FOR = made_for("broker-a", LEVEL_MS, machine())


class Store:
    """Holds records by queue and serves pulls of one message."""

    def __init__(self):
        self.queues = {(SCHEDULE_TOPIC, 0): [], (TIMER_TOPIC, 0): []}

    def send(self, source, uniq, **more):
        key = queue_of(source)
        rows = self.queues[key]
        if source == TIMER:
            more = {"TIMER_DELIVER_MS": "1", **more}
        more = {"UNIQ_KEY": uniq, **more, "REAL_TOPIC": "t", "REAL_QID": "0"}
        if source == TIMER:
            more["TIMER_OUT_MS"] = str(NOW_MS + 3_600_000)
        rows.append(record(*key, len(rows), len(rows) * 500, store_ms=NOW_MS, **more))
        (item,) = scan_items(rows[-1])
        return entry_of(item, source, LEVEL_MS)

    async def pull(self, header):
        rows = self.queues[header.topic, header.queue_id]
        found = rows[header.queue_offset : header.queue_offset + header.max_msg_nums]
        return Pulled(0, header.queue_offset + len(found), 0, len(rows), "", b"".join(found))

    def states(self, **settled):
        levels, timers = (len(rows) for rows in self.queues.values())
        return {
            0: QueueState(0, levels, settled.get("levels", [])),
            TIMER: QueueState(0, timers, settled.get("timers", [])),
        }


@pytest.fixture
async def parts(tmp_path):
    opened = []

    def begin(made_for=FOR):
        clock = StoreClock()
        clock.heard(NOW_MS, monotonic(), NOW_MS)
        due_queues = DueQueues(
            SqliteIndex(tmp_path / "a.due.sqlite", machine().workers, made_for), clock, monotonic, ReadTo()
        )
        opened.append(due_queues)
        return due_queues

    yield Store(), begin
    for due_queues in opened:
        await due_queues.far.close()


def arm(due_queues, entries):
    for one in entries:
        due_queues.arm([one], due_queue_of(one))


async def waiting(due_queues, count=20):
    found = [one for n in range(count) for one in await due_queues.find(b"u%d" % n)]
    return sorted((one.source, one.offset) for one in found)


async def written(due_queues):
    """Wait until armed messages are in the file."""
    await due_queues.far._all_written()


def left_over(known, end):
    return [n for n in range(end) if not known.holds(n)]


async def test_after_a_kill_rows_survive_and_only_messages_without_one_are_read(parts):
    store, begin = parts
    levels = [store.send(0, f"u{n}") for n in range(6)]
    timers = [store.send(TIMER, f"u{n}") for n in range(6, 10)]
    killed = begin()
    arm(killed, [*levels[:2], *levels[3:], *timers[:3]])
    await written(killed)  # killed here: the old term does nothing more
    due_queues = begin()
    known = await resume("broker-a", store, due_queues, store.states(levels=[(4, 5)]), LEVEL_MS)
    assert await waiting(due_queues) == [(0, 0), (0, 1), (0, 3), (0, 5), (TIMER, 0), (TIMER, 1), (TIMER, 2)]
    assert (due_queues.due[DELAYS].far_count, due_queues.due[INSTANTS].far_count) == (4, 3)
    assert left_over(known[0], 6) == [2]
    assert left_over(known[TIMER], 4) == [3]
    loaded = await due_queues.far.load(DELAYS, NOW_MS + 10_000_000, 99)
    assert [one for _, one in loaded] == [levels[0], levels[1], levels[3], levels[5]]


async def test_loaded_messages_are_restored_unless_they_were_put_back(parts):
    store, begin = parts
    levels = [store.send(0, f"u{n}") for n in range(5)]
    killed = begin()
    arm(killed, levels)
    assert len(await killed.far.load(DELAYS, NOW_MS + 10_000_000, 99)) == 5
    killed.far.add(DELAYS, NOW_MS + 50_000_000, levels[1])
    await written(killed)
    due_queues = begin()
    known = await resume("broker-a", store, due_queues, store.states(levels=[(2, 4)]), LEVEL_MS)
    assert await waiting(due_queues) == [(0, 0), (0, 1), (0, 4)]
    assert due_queues.pending == 3
    assert left_over(known[0], 5) == []
    loaded = await due_queues.far.load(DELAYS, NOW_MS + 90_000_000, 99)
    assert [(at, one.offset) for at, one in loaded] == [
        (levels[0].due_ms, 0), (levels[4].due_ms, 4), (NOW_MS + 50_000_000, 1),
    ]  # fmt: skip


async def test_a_waiting_cancel_record_is_read_again(parts):
    store, begin = parts
    timers = [store.send(TIMER, "u0"), store.send(TIMER, "u1", TIMER_DEL_UNIQKEY="t+u9")]
    assert timers[1].cancels
    killed = begin()
    arm(killed, timers)
    await written(killed)
    due_queues = begin()
    known = await resume("broker-a", store, due_queues, store.states(), LEVEL_MS)
    assert await waiting(due_queues) == [(TIMER, 0)]
    assert left_over(known[TIMER], 2) == [1]
    assert due_queues.pending == 1


def another(store):
    store.queues[SCHEDULE_TOPIC, 0].clear()
    for n in range(6):
        store.send(0, f"w{n}")


def cut(store):
    del store.queues[SCHEDULE_TOPIC, 0][3:]


def cut_and_written_again(store):
    cut(store)
    for n in range(3):
        store.send(0, f"w{n}")


@pytest.mark.parametrize("change", [another, cut, cut_and_written_again])
async def test_rows_that_the_log_does_not_confirm_are_discarded(parts, change):
    store, begin = parts
    killed = begin()
    arm(killed, [store.send(0, f"u{n}") for n in range(6)])
    await written(killed)
    change(store)
    due_queues = begin()
    known = await resume("broker-a", store, due_queues, store.states(), LEVEL_MS)
    assert await waiting(due_queues) == []
    assert due_queues.pending == 0
    assert left_over(known[0], 3) == [0, 1, 2]
    arm(due_queues, [store.send(0, "u19")])
    assert len(await waiting(due_queues)) == 1


async def test_a_decision_the_log_lost_is_open_again(parts):
    store, begin = parts
    levels = [store.send(0, f"u{n}") for n in range(3)]
    killed = begin()
    arm(killed, levels)
    await written(killed)
    killed.forget([levels[1]])
    await written(killed)
    due_queues = begin()
    known = await resume("broker-a", store, due_queues, store.states(), LEVEL_MS)
    assert left_over(known[0], 3) == [1]
    assert due_queues.pending == 2


@pytest.mark.parametrize("is_old", [True, False])
async def test_a_damaged_or_foreign_file_is_rebuilt(parts, tmp_path, is_old):
    store, begin = parts
    killed = begin()
    arm(killed, [store.send(0, f"u{n}") for n in range(6)])
    await killed.far.close(keep=True)
    if is_old:
        with sqlite3.connect(tmp_path / "a.due.sqlite") as database:
            database.execute("DROP TABLE cancels")
        database.close()
    due_queues = begin(FOR if is_old else made_for("broker-a", (5000,), machine()))
    assert due_queues.far.is_old is is_old
    known = await resume("broker-a", store, due_queues, store.states(), LEVEL_MS)
    assert left_over(known[0], 6) == list(range(6))
    arm(due_queues, [store.send(0, "u6")])
    assert await waiting(due_queues) == [(0, 6)]


async def test_an_orderly_stop_also_keeps_unwritten_rows(parts):
    store, begin = parts
    before = begin()
    arm(before, [store.send(0, f"u{n}") for n in range(3)])
    await before.far.close(keep=True)
    due_queues = begin()
    known = await resume("broker-a", store, due_queues, store.states(), LEVEL_MS)
    assert left_over(known[0], 3) == []
    assert due_queues.pending == 3


def test_a_file_is_valid_for_one_boot_and_one_list_of_levels():
    assert made_for("b", (1, 2), machine()) == made_for("b", (1, 2), machine())
    assert (
        len(
            {
                made_for("b", (1, 2), machine()),
                made_for("c", (1, 2), machine()),
                made_for("b", (1, 3), machine()),
            }
        )
        == 3
    )
    nameless = replace(machine(), boot_id="")
    assert made_for("b", (1, 2), nameless) != made_for("b", (1, 2), nameless)
