"""What every register promises: the one in memory, and the one in JetStream on a real server."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from nats_nodes import Node, nodes, record, register

from broker_store.replication.register import (
    Faults,
    MemoryRegister,
    Records,
    Refused,
    Register,
    RegisterBehind,
    RegisterUnusable,
    Written,
)

pytestmark = pytest.mark.anyio
Open = Callable[[int], contextlib.AbstractAsyncContextManager[Register]]
groups = (f"broker.{number} of ü" for number in itertools.count())


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with nodes(tmp_path_factory.mktemp("nats"), 1) as (one,):
        yield one


@pytest.fixture
def group() -> str:
    return next(groups)


@pytest.fixture(params=["memory", "jetstream"])
def opened(request: pytest.FixtureRequest, group: str) -> Open:
    """Return what opens the register of one store, given the version that the store remembers."""
    if request.param == "jetstream":
        url = request.getfixturevalue("node").url
        return lambda remembered: register(url, group=group, remembered=remembered)
    records = Records(group)

    @contextlib.asynccontextmanager
    async def in_memory(remembered: int) -> AsyncIterator[Register]:
        yield MemoryRegister(records, Faults(), remembered)

    return in_memory


async def test_records_follow_each_other_and_the_newest_is_read(opened: Open, group: str) -> None:
    async with opened(0) as one, opened(0) as other:
        assert await one.bootstrap(record(1, "n1", group)) == Written(1)
        for version in range(2, 6):
            assert await one.write(version - 1, record(version, f"n{version}", group)) == Written(version)
            assert await other.read() == record(version, f"n{version}", group)
        assert (one.known, other.known) == (5, 5)


async def test_of_two_writers_of_a_version_exactly_one_wins(opened: Open, group: str) -> None:
    async with opened(0) as one, opened(0) as other:
        await one.bootstrap(record(1, "first", group))
        for version in range(2, 30):
            tries = [record(version, f"{name}-{version}", group, name) for name in "ab"]
            outcomes = await asyncio.gather(
                one.write(version - 1, tries[0]), other.write(version - 1, tries[1])
            )
            winner = next(at for at, outcome in enumerate(outcomes) if outcome == Written(version))
            assert outcomes[1 - winner] == Refused(tries[winner])
            assert await one.read() == tries[winner]


async def test_a_write_on_an_old_version_is_refused_with_the_newest(opened: Open, group: str) -> None:
    async with opened(0) as one:
        await one.bootstrap(record(1, "n1", group))
        await one.write(1, record(2, "n2", group))
        await one.write(2, record(3, "n3", group))
        assert await one.write(1, record(2, "late", group)) == Refused(record(3, "n3", group))


async def test_a_repeated_write_takes_effect_once(opened: Open, group: str) -> None:
    async with opened(0) as one:
        await one.bootstrap(record(1, "n1", group))
        for _ in range(3):
            assert await one.write(1, record(2, "n2", group)) == Written(2)
        await one.write(2, record(3, "n3", group))
        assert await one.write(1, record(2, "n2", group)) == Written(2)
        assert (await one.read()).version == 3


async def test_only_bootstrap_makes_a_first_record(opened: Open, group: str) -> None:
    async with opened(0) as one, opened(0) as other:
        with pytest.raises(RegisterUnusable):
            await one.read()
        with pytest.raises(RegisterUnusable):
            await one.write(1, record(2, "n2", group))
        with pytest.raises(ValueError, match="bootstrap"):
            await one.write(0, record(1, "n1", group))
        assert await one.bootstrap(record(1, "n1", group)) == Written(1)
        assert await one.bootstrap(record(1, "n1", group)) == Written(1)
        assert await other.bootstrap(record(1, "other", group)) == Refused(record(1, "n1", group))


async def test_a_register_older_than_the_store_remembers_is_refused(opened: Open, group: str) -> None:
    async with opened(0) as one, opened(2) as remembers:
        await one.bootstrap(record(1, "n1", group))
        with pytest.raises(RegisterBehind, match="version 1, and this store knows version 2") as refused:
            await remembers.read()
        assert (refused.value.version, refused.value.known) == (1, 2)
        assert await remembers.wait_newer(0, 0.05) is None
        await one.write(1, record(2, "n2", group))
        assert (await remembers.read()).version == 2
        remembers.learn(1)
        assert remembers.known == 2
        remembers.learn(3)
        with pytest.raises(RegisterBehind, match="version 2, and this store knows version 3"):
            await remembers.read()


async def test_a_record_in_a_wrong_place_is_a_fault_of_the_caller(opened: Open, group: str) -> None:
    async with opened(0) as one:
        await one.bootstrap(record(1, "n1", group))
        with pytest.raises(ValueError, match="does not follow"):
            await one.write(1, record(3, "n", group))
        with pytest.raises(ValueError, match="does not belong"):
            await one.write(1, record(2, "n", "another"))
        assert (await one.read()).version == 1


async def test_waiting_ends_with_a_newer_record_or_with_its_time(opened: Open, group: str) -> None:
    async with opened(0) as one, opened(0) as other:
        await one.bootstrap(record(1, "n1", group))
        assert await other.wait_newer(1, 0.05) is None
        waiting = asyncio.ensure_future(other.wait_newer(1, 60))
        await asyncio.sleep(0.05)
        await one.write(1, record(2, "n2", group))
        assert await waiting == record(2, "n2", group)
        assert await other.wait_newer(0, 60) == record(2, "n2", group)
