"""Requests 9055 and 9056: followers learn every change at once, and services store entries unless somebody was faster."""

import asyncio
from typing import Any

import msgspec
import pytest
from access_side import AccessSide

from broker_store.access import changes_handler
from gantry_access.entries.contents import user_entry
from gantry_access.entries.entry import Entry, Kind, decode_entry
from gantry_access.model.users import User
from gantry_wire.private_requests.access_change import (
    DELETED,
    AccessChange,
    WantedEntry,
    decode_changed,
    encode_change,
)
from gantry_wire.private_requests.access_changes import AccessChanges, AskAccessChanges

pytestmark = pytest.mark.anyio
CHANGES, CHANGE = 9055, 9056


def ask(side: AccessSide, run: str = "", version: int = 0, wait_ms: int = 0) -> int:
    body = msgspec.json.encode(AskAccessChanges(run=run, version=version, wait_ms=wait_ms))
    return side.ask(side.client, CHANGES, None, body)


async def answer(side: AccessSide, opaque: int) -> AccessChanges:
    async def found() -> Any:
        while (reply := side.answer_to(opaque)) is None:
            await asyncio.sleep(0)
        return reply

    reply = await side.finish(found())
    assert reply.code == 0
    return msgspec.json.decode(reply.body, type=AccessChanges)


def names(changes: AccessChanges) -> list[str]:
    return [decode_entry(bytes(raw)).name for raw in changes.entries]


def wanted(entry: Entry, made_from_ms: int | None = None) -> WantedEntry:
    record = msgspec.Raw(entry.record or DELETED)
    return WantedEntry(kind=entry.kind.value, name=entry.name, record=record, made_from_ms=made_from_ms)


def change(*entries: WantedEntry, by: str = "") -> bytes:
    return encode_change(AccessChange(entries=list(entries), by=by))


async def create(side: AccessSide, name: str) -> None:
    await side.done(3001, {"username": name}, b'{"password":"x"}')


async def test_a_follower_gets_all_then_what_changed():
    side = AccessSide()
    first = await answer(side, ask(side))
    assert (names(first), first.more) == ([], False)
    await create(side, "alice")
    await create(side, "bob")
    second = await answer(side, ask(side, first.run, first.version))
    assert names(second) == ["alice", "bob"]
    assert names(await answer(side, ask(side, second.run, second.version))) == []
    assert names(await answer(side, ask(side, "another run", second.version))) == ["alice", "bob"]
    again = side.reopen()
    third = await answer(again, ask(again, second.run, second.version))
    assert third.run != second.run
    assert names(third) == ["alice", "bob"]


async def test_a_follower_that_waits_is_answered_with_the_next_change():
    side = AccessSide()
    first = await answer(side, ask(side))
    waiting = [ask(side, first.run, first.version, 60_000) for _ in range(3)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert not any(side.answer_to(opaque) for opaque in waiting)
    await create(side, "alice")
    assert [names(await answer(side, opaque)) for opaque in waiting] == [["alice"]] * 3


async def test_a_wait_ends_with_its_time_and_with_the_store(monkeypatch):
    side = AccessSide()
    first = await answer(side, ask(side))
    assert names(await answer(side, ask(side, first.run, first.version, 10))) == []
    opaque = ask(side, first.run, first.version, 30_000)
    await asyncio.sleep(0)
    await side.access.close()
    assert names(await answer(side, opaque)) == []


async def test_more_followers_than_may_wait_are_answered_at_once(monkeypatch):
    monkeypatch.setattr(changes_handler, "WAITERS_MAX", 1)
    side = AccessSide()
    first = await answer(side, ask(side))
    waiting = ask(side, first.run, first.version, 30_000)
    await asyncio.sleep(0)
    assert names(await answer(side, ask(side, first.run, first.version, 30_000))) == []
    assert side.answer_to(waiting) is None
    await side.access.close()


async def test_many_entries_come_in_pages(monkeypatch):
    monkeypatch.setattr(changes_handler, "PAGE_BYTES_MAX", 500)
    side = AccessSide()
    await side.finish(side.access.log.append([Entry(Kind.USER, f"u{n:03}", 1, None) for n in range(50)]))
    found, run, version, more = list[str](), "", 0, True
    while more:
        page = await answer(side, ask(side, run, version))
        assert len(page.entries) < 15
        found += names(page)
        run, version, more = page.run, page.version, page.more
    assert found == [f"u{n:03}" for n in range(50)]


async def test_wanted_entries_are_stamped_stored_and_audited_for_their_user():
    side = AccessSide()
    entry = user_entry(User("alice", secrets=("sealed",)), 7)
    reply = await side.asked(CHANGE, None, change(wanted(entry), by="carol from 10.9.9.9"))
    (stored,) = (decode_entry(bytes(raw)) for raw in decode_changed(reply.body).entries)
    assert stored == entry._replace(stamp_ms=stored.stamp_ms)
    assert side.entries["user", "alice"] == entry.record
    ((asker, before, after),) = side.audited
    assert (asker.name, before, after) == ("carol from 10.9.9.9", None, stored)
    again = await side.asked(CHANGE, None, change(wanted(entry._replace(record=None), stored.stamp_ms)))
    (deleted,) = (decode_entry(bytes(raw)) for raw in decode_changed(again.body).entries)
    assert deleted.record is None
    assert deleted.stamp_ms > stored.stamp_ms


async def test_a_change_made_from_an_entry_that_changed_meanwhile_is_refused_whole():
    side = AccessSide()
    await create(side, "alice")
    late, other = wanted(user_entry(User("alice"), 1), 0), wanted(user_entry(User("bob"), 1), 0)
    reply = await side.asked(CHANGE, None, change(other, late))
    assert (reply.code, reply.ext["gantryCode"]) == (604, "ACCESS_CONFLICT")
    assert set(side.entries) == {("user", "alice")}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        change(wanted(Entry(Kind.USER, "alice", 1, b'{"v":1}'))),
        change(wanted(Entry(Kind.USER, "bob", 1, user_entry(User("eve"), 1).record))),
        change(wanted(user_entry(User("alice"), 1)), wanted(user_entry(User("alice"), 2))),
    ],
)
async def test_changes_that_cannot_be_read_are_refused(body):
    side = AccessSide()
    assert (await side.asked(CHANGE, None, body)).code != 0
    assert side.entries == {}
