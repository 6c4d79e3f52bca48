"""A replica that follows is registered in each epoch of its leader, and no longer once it leads."""

import asyncio

import pytest

from broker_store.process.group.follower_registration import LOOK_SECONDS, FollowerRegistration

pytestmark = pytest.mark.anyio


class Registered:
    """Registrations, and which of them run."""

    def __init__(self):
        self.epoch, self.running = 0, []

    def make(self, epoch):
        registered = self

        class One:
            async def run(self):
                registered.running.append(epoch)
                try:
                    await asyncio.Event().wait()
                finally:
                    registered.running.remove(epoch)

        return One()


async def test_one_registration_runs_in_the_epoch_of_the_leader_and_none_without():
    registered = Registered()
    task = asyncio.ensure_future(FollowerRegistration(lambda: registered.epoch, registered.make).run())
    for epoch, running in ((0, []), (3, [3]), (4, [4]), (0, []), (5, [5])):
        registered.epoch = epoch
        await asyncio.sleep(LOOK_SECONDS * 2)
        assert registered.running == running
    task.cancel()
    await asyncio.wait([task])
    assert registered.running == []
