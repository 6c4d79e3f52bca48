"""Saves follow changes: one write at a time, always the newest state, answers only after it."""

import asyncio
import contextlib
import threading

import pytest

from broker_store.config import saver as saver_module
from broker_store.config.saver import Saver
from gantry_chassis.machine.environment import machine

pytestmark = pytest.mark.anyio


class Disk:
    """Stores what it gets. `gate` delays a write, `broken` fails it."""

    def __init__(self):
        self.written = []
        self.gate = threading.Event()
        self.gate.set()
        self.broken = False

    def store(self, content):
        self.gate.wait(5)
        if self.broken:
            raise OSError(28, "No space left on device")
        self.written.append(content)


@pytest.fixture
def state():
    return {"value": 0}


@pytest.fixture
def disk():
    return Disk()


@pytest.fixture
async def saver(state, disk):
    with contextlib.closing(machine().workers(1, "disk")) as thread:
        yield Saver("x.json", lambda: b"%d" % state["value"], disk.store, thread)


async def saved(saver):
    done = asyncio.get_running_loop().create_future()
    saver.when_saved(done.set_result)
    return await asyncio.wait_for(done, 60)


async def test_nothing_to_save_is_answered_at_once(saver, disk):
    assert await saved(saver) is None
    assert disk.written == []


async def test_many_changes_of_a_turn_are_one_write(saver, state, disk):
    for _ in range(50):
        state["value"] += 1
        saver.changed()
    assert await saved(saver) is None
    assert disk.written == [b"50"]


async def test_a_change_during_a_write_is_written_after_it_and_only_then_answered(saver, state, disk):
    disk.gate.clear()
    saver.changed()
    await asyncio.sleep(0.01)
    state["value"] = 7
    saver.changed()
    answered = []
    saver.when_saved(answered.append)
    disk.gate.set()
    await saver.close()
    assert disk.written == [b"0", b"7"]
    assert answered == [None]


async def test_a_failed_write_is_reported_and_retried(saver, disk, monkeypatch):
    monkeypatch.setattr(saver_module, "RETRY_SECONDS", 0.02)
    disk.broken = True
    saver.changed()
    assert isinstance(await saved(saver), OSError)
    disk.broken = False
    await asyncio.sleep(0.1)
    assert disk.written == [b"0"]


async def test_closing_stops_on_a_failing_disk(saver, disk):
    disk.broken = True
    saver.changed()
    await asyncio.wait_for(saver.close(), 60)
    assert disk.written == []


async def test_saved_returns_once_the_newest_state_is_written_though_an_older_write_was_running():
    disk, state = Disk(), {"value": b"old"}
    with contextlib.closing(machine().workers(1, "disk")) as thread:
        saver = Saver("x.json", lambda: state["value"], disk.store, thread)
        disk.gate.clear()
        saver.changed()
        await asyncio.sleep(0)
        state["value"] = b"new"
        saver.changed()
        waiting = asyncio.ensure_future(saver.saved())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        disk.gate.set()
        await waiting
        assert disk.written == [b"old", b"new"]
        await saver.saved()
        await saver.close()


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("a bug")])
async def test_saved_raises_what_stopped_the_write(error):
    def store(_content):
        raise error

    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    with contextlib.closing(machine().workers(1, "disk")) as thread:
        saver = Saver("x.json", lambda: b"", store, thread)
        saver.changed()
        with pytest.raises(type(error)):
            await saver.saved()
