"""A stop during a checkpoint, at each of its steps: the last checkpoint is complete."""

import asyncio
import errno
import gc
from collections import deque
from dataclasses import replace

import pytest
from sending_side import ScriptedPeer, SendingSide

from broker_store.log.files.simulated_files import Fault
from broker_store.opening import checkpoints
from gantry_chassis.machine.environment import machine
from gantry_wire.limits import INT64_MAX
from gantry_wire.messages.properties import index_key_hash

pytestmark = pytest.mark.anyio
KEYS = [f"K{number}" for number in range(5)]


class SteppedThread:
    """A thread that runs a job only on demand."""

    def __init__(self):
        self._waiting, self._is_free = deque(), False

    def workers(self, _count, _name):
        return self

    def run(self, work, *arguments):
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((future, work, arguments))
        if self._is_free:
            self._step()
        return future

    async def until_waiting(self):
        for _ in range(100):
            if self._waiting:
                return True
            await asyncio.sleep(0)
        return False

    async def step(self, jobs):
        """Run up to `jobs` jobs. Returns whether there were as many."""
        for _ in range(jobs):
            if not await self.until_waiting():
                return False
            self._step()
        return await self.until_waiting()

    def free(self):
        self._is_free = True
        while self._waiting:
            self._step()

    def _step(self):
        future, work, arguments = self._waiting.popleft()
        if not future.cancelled():
            try:
                future.set_result(work(*arguments))
            except Exception as error:  # noqa: BLE001 - as a real one
                future.set_exception(error)


async def test_a_stop_in_the_middle_of_a_checkpoint_leaves_everything_on_disk(monkeypatch):
    monkeypatch.setattr(checkpoints, "REST_SECONDS_MAX", 0.0)  # its steps are counted in turns of the loop
    for jobs in range(30):
        thread = SteppedThread()
        side, peer = SendingSide(environment=replace(machine(), workers=thread.workers)), ScriptedPeer()
        for key in KEYS:
            side.send(peer, properties={"UNIQ_KEY": key})
        side.flush()
        taking = asyncio.create_task(side.sending.checkpoints.take())
        is_within = await thread.step(jobs)
        taking.cancel()
        await asyncio.sleep(0)
        closing = asyncio.create_task(side.sending.checkpoints.close())
        await asyncio.sleep(0)
        thread.free()
        await closing
        again = SendingSide(side.files)
        assert not again.opening.is_rebuild
        for key in KEYS:
            found = again.store.index.lookup(index_key_hash("orders", key), 0, INT64_MAX, 4)
            assert len(found) == 1, (jobs, key)
        assert len(again.records()) == len(KEYS)
        if not is_within:
            assert jobs > 8
            return
    raise AssertionError("a checkpoint has more steps than were tried")


async def test_a_checkpoint_that_fails_after_its_caller_was_cancelled_is_reported_by_the_stop_alone(capsys):
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
    thread = SteppedThread()
    side, peer = SendingSide(environment=replace(machine(), workers=thread.workers)), ScriptedPeer()
    side.send(peer, properties={"UNIQ_KEY": KEYS[0]})
    side.flush()
    taking = asyncio.create_task(side.sending.checkpoints.take())
    assert await thread.until_waiting()
    taking.cancel()
    await asyncio.sleep(0)
    side.files.faults.append(Fault("sync", errno.EIO, "log.note"))
    closing = asyncio.create_task(side.sending.checkpoints.close())
    await asyncio.sleep(0)
    thread.free()
    await closing
    del taking, closing
    gc.collect()
    await asyncio.sleep(0)
    assert reported == []
    assert "no last checkpoint" in capsys.readouterr().out
