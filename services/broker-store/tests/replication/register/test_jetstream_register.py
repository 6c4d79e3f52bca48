"""The register on one NATS server: lost replies, streams that an operator made or lost, restarts, older directories."""

import asyncio
import itertools
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from nats_nodes import Cut, Node, decided, newest, nodes, record, register

from broker_store.replication.register import (
    Refused,
    RegisterAway,
    RegisterBehind,
    RegisterUnusable,
    Unknown,
    Waits,
    Written,
)
from broker_store.replication.register.stream import HISTORY, configuration, name_of, subject_of
from gantry_chassis.nats_connection import NatsRequests

pytestmark = pytest.mark.anyio
groups = (f"group-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with nodes(tmp_path_factory.mktemp("nats"), 1) as (one,):
        yield one


@pytest.fixture
def group() -> str:
    return next(groups)


async def ask(node: Node, subject: str, body: object = None) -> dict:
    """Send a request to JetStream as an operator's tool does."""
    requests = NatsRequests((node.url,), "operator", random.Random())
    payload = b"" if body is None else json.dumps(body).encode()
    answer = await requests.request(subject, payload, 30)
    await requests.close()
    return json.loads(answer.payload)


async def filled(node: Node, group: str, version: int) -> None:
    async with register(node.url, group=group) as one:
        await one.bootstrap(record(1, "n1", group))
        for later in range(2, version + 1):
            assert await one.write(later - 1, record(later, f"n{later}", group)) == Written(later)


async def test_a_lost_reply_is_recognised_by_the_nonce(node: Node, group: str) -> None:
    """The server writes the record; what it says of it never arrives, and the connection breaks."""
    await filled(node, group, 1)
    cut = Cut(node.port)
    async with cut.listening() as url, register(url, group=group, waits=Waits(30, 0)) as one:
        assert (await one.read()).version == 1
        cut.is_deaf = True
        writing = asyncio.ensure_future(one.write(1, record(2, "mine", group)))
        while b'"seq":2' not in cut.swallowed:
            await asyncio.sleep(0.01)
        cut.is_deaf = False
        cut.cut()
        assert await writing == Written(2)


async def test_a_lost_reply_stays_unknown_while_nothing_answers_and_is_recognised_later(
    node: Node, group: str
) -> None:
    await filled(node, group, 1)
    cut = Cut(node.port)
    async with cut.listening() as url, register(url, group=group, waits=Waits(0.5, 0)) as one:
        assert (await newest(one)).version == 1
        cut.is_deaf = True
        assert isinstance(await one.write(1, record(2, "mine", group)), Unknown)
        cut.is_deaf = False
        async with register(node.url, group=group) as other:
            while (await other.read()).nonce != "mine":
                await asyncio.sleep(0.01)
            assert await other.write(2, record(3, "other", group)) == Written(3)
        assert await decided(one, record(2, "mine", group)) == Written(2)
        assert await newest(one) == record(3, "other", group)


async def test_another_record_in_place_of_a_lost_write_is_refused(node: Node, group: str) -> None:
    await filled(node, group, 1)
    cut = Cut(node.port)
    async with cut.listening() as url, register(url, group=group, waits=Waits(30, 0)) as one:
        assert (await one.read()).version == 1
        async with register(node.url, group=group) as other:
            await other.write(1, record(2, "other", group))
        cut.is_deaf = True
        writing = asyncio.ensure_future(one.write(1, record(2, "mine", group)))
        while b"wrong last sequence" not in cut.swallowed:
            await asyncio.sleep(0.01)
        cut.is_deaf = False
        cut.cut()
        assert await writing == Refused(record(2, "other", group))


async def test_a_removed_stream_is_refused_and_rebuilt_after_the_highest_version(
    node: Node, group: str
) -> None:
    await filled(node, group, 5)
    async with register(node.url, group=group) as one, register(node.url, group=group) as operator:
        assert (await one.read()).version == 5
        assert (await ask(node, f"$JS.API.STREAM.DELETE.{name_of(group)}"))["success"]
        with pytest.raises(RegisterUnusable, match="rebuild the register from the highest version"):
            await one.read()
        with pytest.raises(RegisterUnusable, match="rebuild the register from the highest version"):
            await one.write(5, record(6, "n6", group))
        assert await operator.rebuild(5, record(6, "rebuilt", group)) == Written(6)
        assert await operator.rebuild(5, record(6, "rebuilt", group)) == Written(6)
        assert await one.read() == record(6, "rebuilt", group)
        assert await operator.bootstrap(record(1, "n", group)) == Refused(record(6, "rebuilt", group))


async def test_a_stream_that_was_removed_and_made_again_is_refused(node: Node, group: str) -> None:
    await filled(node, group, 3)
    async with register(node.url, group=group) as one, register(node.url, group=group) as stranger:
        assert (await one.read()).version == 3
        await ask(node, f"$JS.API.STREAM.DELETE.{name_of(group)}")
        await ask(node, f"$JS.API.STREAM.CREATE.{name_of(group)}", configuration(group, 1))
        with pytest.raises(RegisterUnusable, match="is empty"):
            await one.read()
        with pytest.raises(RegisterUnusable, match="is empty"):
            await one.write(3, record(4, "n4", group))
        assert await stranger.bootstrap(record(1, "again", group)) == Written(1)
        with pytest.raises(RegisterBehind, match="rebuild the register from the highest version"):
            await one.read()
        assert isinstance(await one.write(3, record(4, "n4", group)), Unknown)
        with pytest.raises(RegisterUnusable, match="exists"):
            await one.rebuild(3, record(4, "rebuilt", group))


async def test_a_lack_is_believed_when_it_lasts(node: Node, group: str) -> None:
    """A server that just took the lead may not know yet what it has."""
    async with register(node.url, group=group, waits=Waits(30, 0.3)) as one:
        with pytest.raises(RegisterAway, match="no stream"):
            await one.read()
        await asyncio.sleep(0.4)
        with pytest.raises(RegisterUnusable, match="no stream"):
            await one.read()
        await ask(node, f"$JS.API.STREAM.CREATE.{name_of(group)}", configuration(group, 1))
        with pytest.raises(RegisterAway, match="is empty"):
            await one.read()
        await asyncio.sleep(0.4)
        with pytest.raises(RegisterUnusable, match="is empty"):
            await one.read()
        await one.bootstrap(record(1, "n1", group))
        assert (await one.read()).version == 1


async def test_records_cannot_be_removed_by_hand(node: Node, group: str) -> None:
    await filled(node, group, 3)
    stream = name_of(group)
    for call, body in (("PURGE", {}), ("MSG.DELETE", {"seq": 3})):
        assert (
            "not permitted"
            in (await ask(node, f"$JS.API.STREAM.{call}.{stream}", body))["error"]["description"]
        )
    looser = {**configuration(group, 1), "deny_purge": False, "deny_delete": False}
    assert "error" in await ask(node, f"$JS.API.STREAM.UPDATE.{stream}", looser)
    async with register(node.url, group=group) as one:
        assert (await one.read()).version == 3


@pytest.mark.parametrize(
    "wrong", [{"storage": "memory"}, {"allow_direct": True}, {"deny_purge": False}, {"max_msgs": 1}]
)
async def test_a_stream_with_other_settings_is_no_register(
    node: Node, group: str, wrong: dict[str, object]
) -> None:
    await ask(node, f"$JS.API.STREAM.CREATE.{name_of(group)}", {**configuration(group, 1), **wrong})
    async with register(node.url, group=group) as one:
        for call in (one.read(), one.write(1, record(2, "n", group)), one.bootstrap(record(1, "n", group))):
            with pytest.raises(RegisterUnusable, match=f"{next(iter(wrong))} is"):
                await call


@pytest.mark.parametrize(
    "foreign", [b"x", b"{}", b'{"version":2,"group":"other"}'], ids=["text", "nothing", "fields"]
)
async def test_a_foreign_record_is_refused(node: Node, group: str, foreign: bytes) -> None:
    await filled(node, group, 1)
    requests = NatsRequests((node.url,), "stranger", random.Random())
    await requests.request(subject_of(group), foreign, 30)
    await requests.close()
    async with register(node.url, group=group) as one:
        with pytest.raises(RegisterUnusable, match="damaged or foreign"):
            await one.read()
        with pytest.raises(RegisterUnusable, match="damaged or foreign"):
            await one.write(1, record(2, "n", group))


async def test_a_copied_record_in_another_place_is_refused(node: Node, group: str) -> None:
    from broker_store.replication.register.record import encode

    await filled(node, group, 1)
    requests = NatsRequests((node.url,), "stranger", random.Random())
    await requests.request(subject_of(group), encode(record(1, "n1", group)), 30)
    await requests.close()
    async with register(node.url, group=group) as one:
        with pytest.raises(RegisterUnusable, match=r"record 2 of .* says version 1"):
            await one.read()


async def test_the_stream_keeps_a_bounded_history_and_versions_continue(node: Node, group: str) -> None:
    await filled(node, group, HISTORY + 20)
    async with register(node.url, group=group) as one:
        assert (await one.read()).version == HISTORY + 20
        assert await one.write(1, record(2, "late", group)) == Refused(
            record(HISTORY + 20, f"n{HISTORY + 20}", group)
        )
        state = (await ask(node, f"$JS.API.STREAM.INFO.{name_of(group)}"))["state"]
        assert (state["messages"], state["first_seq"]) == (HISTORY, 21)


async def test_an_older_directory_is_refused_and_a_killed_server_loses_nothing(tmp_path: Path) -> None:
    with nodes(tmp_path / "own", 1) as (own,):
        await filled(own, "broker-a", 2)
        async with register(own.url) as one:
            own.kill()
            with pytest.raises(RegisterAway):
                await one.read()
            shutil.copytree(own.data, tmp_path / "older")
            own.start()
            assert await one.write(2, record(3, "n3")) == Written(3)
            own.kill()
            own.start()
            assert (await one.read()).version == 3
            own.kill()
            shutil.rmtree(own.data)
            shutil.move(tmp_path / "older", own.data)
            own.start()
            with pytest.raises(RegisterBehind, match="version 2, and this store knows version 3"):
                await one.read()
        async with register(own.url, remembered=3) as restarted:
            with pytest.raises(RegisterBehind):
                await restarted.read()
