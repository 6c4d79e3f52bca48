"""The register on three NATS servers: races, a leader that dies or hangs, a minority, a restart of all. Nothing written is lost."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from nats_nodes import SECONDS_MAX, Node, decided, newest, nodes, record, register

from broker_store.replication.register import (
    JetStreamRegister,
    Refused,
    RegisterAway,
    RegisterBehind,
    Unknown,
    Waits,
    Written,
)

pytestmark = [pytest.mark.anyio, pytest.mark.cluster, pytest.mark.crash]
groups = (f"group-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Node]]:
    with nodes(tmp_path_factory.mktemp("nats"), 3) as made:
        yield made


@pytest.fixture
def group() -> str:
    return next(groups)


def opened(group: str, *order: Node, seconds_max: float = 1.0, lack_seconds: float = 5.0):
    """Open a register that prefers the first of some servers."""
    return register(
        *(node.url for node in order), replicas=3, group=group, waits=Waits(seconds_max, lack_seconds)
    )


async def made(one: JetStreamRegister, group: str) -> None:
    """Make the register as soon as the servers have a leader."""
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            try:
                outcome = await one.bootstrap(record(1, "first", group))
            except RegisterAway:
                outcome = None
            if outcome == Written(1):
                return
            await asyncio.sleep(0.1)


async def led_by(one: JetStreamRegister, three: list[Node]) -> Node:
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            try:
                name = await one.leader()
            except RegisterAway:
                name = ""
            if name:
                return next(node for node in three if node.name == name)
            await asyncio.sleep(0.05)


async def race(
    one: JetStreamRegister, other: JetStreamRegister, group: str, versions: range
) -> dict[int, str]:
    """Let two stores write each version. Return the nonces that won; exactly one wins each."""
    winners: dict[int, str] = {}
    for version in versions:
        tries = [record(version, f"{name}-{version}", group, name) for name in "ab"]
        outcomes = await asyncio.gather(decided(one, tries[0]), decided(other, tries[1]))
        won = [tried for tried, outcome in zip(tries, outcomes, strict=True) if outcome == Written(version)]
        assert len(won) == 1, outcomes
        assert outcomes[won[0] is tries[0]] == Refused(won[0])
        winners[version] = won[0].nonce
    return winners


async def stored(one: JetStreamRegister, versions: range, group: str) -> dict[int, str]:
    """Return the nonces that are in the register: a write in a place that is taken is refused, or found to be its own."""
    found: dict[int, str] = {}
    for version in versions:
        for nonce in (f"a-{version}", f"b-{version}"):
            if await decided(one, record(version, nonce, group, nonce[0])) == Written(version):
                found[version] = nonce
    return found


async def test_of_two_stores_at_two_servers_one_wins_each_version(three: list[Node], group: str) -> None:
    async with opened(group, *three) as one, opened(group, *three[::-1]) as other:
        await made(one, group)
        winners = await race(one, other, group, range(2, 22))
        assert Counter(nonce[0] for nonce in winners.values()).total() == 20
        assert await newest(other) == await newest(one)


async def test_a_killed_leader_loses_nothing_and_the_others_continue(three: list[Node], group: str) -> None:
    async with opened(group, *three) as one, opened(group, *three[::-1]) as other:
        await made(one, group)
        winners = await race(one, other, group, range(2, 6))
        leader = await led_by(one, three)
        leader.kill()
        try:
            winners |= await race(one, other, group, range(6, 10))
        finally:
            leader.start()
        assert await stored(one, range(2, 10), group) == winners


async def test_the_lead_moves_away_from_a_server(three: list[Node], group: str) -> None:
    async with opened(group, *three) as one:
        await made(one, group)
        async with asyncio.timeout(SECONDS_MAX):
            leader = await led_by(one, three)
            while await one.move_leader(leader.name) == leader.name:  # until another server has all records
                await asyncio.sleep(0.05)
            while (moved := await led_by(one, three)) is leader:
                await asyncio.sleep(0.05)
        assert await one.move_leader(leader.name) == moved.name
        assert await decided(one, record(2, "after", group)) == Written(2)


async def test_a_minority_decides_nothing_and_a_restart_of_all_loses_nothing(
    three: list[Node], group: str
) -> None:
    """The minority keeps the leader. A write that it took and could not decide takes effect once, or never."""
    async with (
        opened(group, *three) as one,
        opened(group, *three[::-1]) as other,
    ):
        await made(one, group)
        winners = await race(one, other, group, range(2, 12))
        leader = await led_by(one, three)
        async with opened(group, leader, seconds_max=0.5) as alone:
            assert (await newest(alone)).nonce == winners[11]
            for node in three:
                if node is not leader:
                    node.kill()
            mine = record(12, "a-12", group, "a")
            for _ in range(2):
                assert isinstance(await alone.write(11, mine), Unknown)
            assert await alone.wait_newer(11, 0.1) is None
        leader.kill()
        for node in three:
            node.start()
        outcomes = await asyncio.gather(decided(one, mine), decided(other, record(12, "b-12", group, "b")))
        assert [isinstance(outcome, Written) for outcome in outcomes].count(True) == 1
        assert (await newest(one)).version == 12
        found = await stored(one, range(2, 12), group)
        assert found == winners


@pytest.mark.soak
async def test_a_stale_answer_of_a_paused_leader_is_recognised(three: list[Node], group: str) -> None:
    """A leader that wakes answers what was asked while it was paused, before it notices that another one leads."""
    stale = 0
    async with opened(group, *three) as one:
        await made(one, group)
        for version in range(2, 12):
            leader = await led_by(one, three)
            others = [node for node in three if node is not leader]
            async with opened(group, leader, seconds_max=60) as woken, opened(group, *others) as other:
                assert (await newest(woken)).version == version - 1
                woken.learn(version)
                leader.pause()
                reads = [asyncio.ensure_future(woken.read()) for _ in range(20)]
                try:
                    new = record(version, f"n{version}", group)
                    assert await decided(other, new) == Written(version)
                finally:
                    leader.resume()
                for answer in await asyncio.gather(*reads, return_exceptions=True):
                    assert answer == new or isinstance(answer, RegisterAway | RegisterBehind)
                    stale += isinstance(answer, RegisterBehind)
                assert await newest(woken) == new
            if stale:
                return
    pytest.fail("no leader gave a stale answer in ten rounds: this test saw nothing")


@pytest.mark.soak
async def test_races_through_many_kills_and_pauses_lose_nothing(
    tmp_path: Path, seed: int, group: str
) -> None:
    import random

    drawn = random.Random(seed)
    winners: dict[int, str] = {}
    silences: list[tuple[str, float]] = []
    with nodes(tmp_path, 3) as three:
        async with opened(group, *three) as one, opened(group, *three[::-1]) as other:
            await made(one, group)
            version = 2
            for _ in range(12):
                what = drawn.choice(["leader killed", "leader paused", "follower killed", "all killed"])
                leader = await led_by(one, three)
                hit = {
                    "all killed": three,
                    "follower killed": [drawn.choice([node for node in three if node is not leader])],
                }.get(what, [leader])
                racing = asyncio.ensure_future(race(one, other, group, range(version, version + 10)))
                await asyncio.sleep(drawn.random() * 0.05)
                for node in hit:
                    (node.pause if what == "leader paused" else node.kill)()
                began = time.monotonic()
                if what == "all killed":
                    for node in hit:
                        node.start()
                winners |= await racing
                silences.append((what, round(time.monotonic() - began, 2)))
                if what == "leader paused":
                    leader.resume()
                elif what != "all killed":
                    hit[0].start()
                version += 10
            assert await stored(one, range(2, version), group) == winners
    print(*silences, sep="\n")  # noqa: T201 - what the run saw
