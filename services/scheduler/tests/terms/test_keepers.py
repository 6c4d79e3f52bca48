"""A store that leaves and rejoins has one keeper at a time on its index; shutdown waits for all."""

import asyncio
import contextlib

import pytest

from gantry_link.system_queues.fleet import StoreAt
from scheduler.terms import keepers as keepers_module
from scheduler.terms.keepers import Keepers, KnownStores

pytestmark = pytest.mark.anyio


class SlowKeeper:
    """Takes its time to end."""

    working, most, let_end = 0, 0, asyncio.Event()

    def __init__(self, *_):
        self.term = None

    async def run(self):
        cls = type(self)
        cls.working += 1
        cls.most = max(cls.most, cls.working)
        try:
            await asyncio.Event().wait()
        finally:
            await self.let_end.wait()
            cls.working -= 1


@pytest.fixture
async def keepers(monkeypatch):
    monkeypatch.setattr(keepers_module, "StoreKeeper", SlowKeeper)
    SlowKeeper.working, SlowKeeper.most, SlowKeeper.let_end = 0, 0, asyncio.Event()
    made = Keepers(KnownStores(), None, None)
    made.joined(at(0))
    await asyncio.sleep(0)
    yield made
    SlowKeeper.let_end.set()
    await made.close()


def at(number):
    return StoreAt("broker-a", f"127.0.0.1:{number}")


async def moved(keepers, number):
    keepers.left(at(number))
    keepers.joined(at(number + 1))
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_second_address_change_still_waits_for_the_first_keeper(keepers):
    await moved(keepers, 0)
    await moved(keepers, 1)
    assert (SlowKeeper.working, SlowKeeper.most) == (1, 1)
    SlowKeeper.let_end.set()
    await asyncio.sleep(0.01)
    assert (SlowKeeper.working, SlowKeeper.most) == (1, 1)


async def test_shutdown_waits_for_a_keeper_another_one_waits_for(keepers):
    await moved(keepers, 0)
    closing = asyncio.ensure_future(keepers.close())
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.05):
            await asyncio.shield(closing)
    assert not closing.done()
    SlowKeeper.let_end.set()
    await closing
    assert SlowKeeper.working == 0
