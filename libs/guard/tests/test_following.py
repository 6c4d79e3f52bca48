"""The table follows all stores: news within a second, by the newest time, and nothing is lost while stores are away."""

import asyncio
import os

import msgspec
import pytest
from guarded import KEYS, policy, serving, user

from gantry_access.entries.contents import policies_entry, user_entry
from gantry_access.entries.entry import Entry, Key, Kind, encode_entry
from gantry_access.entries.table import AccessTable
from gantry_access.model.policies import SubjectPolicies
from gantry_access.model.users import Subject, UserStatus
from gantry_guard.following import AccessFollower
from gantry_guard.introduction import Introducer, Introductions
from gantry_link.connections.pool import ConnectionPool
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import GantryCode
from gantry_wire.frames.command import decode_command
from gantry_wire.frames.encode import encode_response
from gantry_wire.private_requests.access_changes import AccessChanges, AskAccessChanges

pytestmark = pytest.mark.anyio


class Store:
    """The side of a store: answers 9055 from a table of its own, in pages, and holds requests without news."""

    def __init__(self, *entries, page_bytes=1):
        self.table, self.run, self.page_bytes = AccessTable(KEYS.sealing), "run-1", page_bytes
        self.extra = []
        """Raw entries that come with every answer."""
        self.asked, self.held = [], []
        self.introductions = Introductions(KEYS.inner, os.urandom)
        self.put(*entries)

    def put(self, *entries):
        self.table.take(entries)
        held, self.held = self.held, []
        for peer, command, asked in held:
            self.answer(peer, command, asked)

    def receive(self, peer, raw):
        command = decode_command(raw)
        if command.code == GantryCode.INTRODUCE:
            self.introductions.introduce(peer, command)
        elif command.code == GantryCode.PROVE:
            self.introductions.prove(peer, command)
        else:
            assert peer.attributes["inner"] == "nameserver"
            asked = decode_body(command.body, AskAccessChanges)
            self.asked.append(asked)
            self.answer(peer, command, asked)

    def answer(self, peer, command, asked):
        version = asked.version if asked.run == self.run else 0
        entries, last = self.table.page(version, self.page_bytes)
        if not entries and asked.wait_ms:
            self.held.append((peer, command, asked))
            return
        raws = [msgspec.Raw(encode_entry(entry)) for entry in entries] + self.extra
        body = AccessChanges(run=self.run, version=last, more=last < self.table.version, entries=raws)
        peer.send(encode_response(0, command.opaque, None, msgspec.json.encode(body)))


class Following:
    """A follower of the stores at `addresses`."""

    def __init__(self, *addresses, is_permissive=False):
        self.addresses = list(addresses)
        self.table, self.news = AccessTable(KEYS.sealing), []
        introducer = Introducer(KEYS.inner, "nameserver", os.urandom, is_permissive=is_permissive)
        self.pool = ConnectionPool(introduce=introducer)
        self.follower = AccessFollower(
            self.table, lambda: self.addresses, self.pool, introducer.is_introduced, self.news.extend
        )

    async def __aenter__(self):
        self.task = asyncio.ensure_future(self.follower.run())
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.pool.close()

    def names(self):
        return sorted(account.user.name for account in self.table.state)


async def until(condition):
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


def users(*names, stamp=1, **parts):
    return [user_entry(user(name, **parts), stamp) for name in names]


async def test_a_store_is_read_whole_page_by_page_and_then_followed():
    store = Store(*users("alice", "bob", "carol"))
    async with serving(store.receive) as address, Following(address) as following:
        await until(lambda: following.table.is_complete)
        assert following.names() == ["alice", "bob", "carol"]
        assert len(store.asked) >= 3
        await until(lambda: store.held)
        asked = len(store.asked)
        store.put(*users("dave"))  # answers the request that waits: nothing is polled
        assert store.held == []
        await until(lambda: "dave" in following.names())
        assert len(store.asked) <= asked + 1
        assert following.follower.following == [address]
        assert [entry.name for entry in following.news] == ["alice", "bob", "carol", "dave"]


async def test_the_table_is_complete_only_after_the_last_page():
    store = Store(*users("alice", "bob"))
    async with serving(store.receive) as address, Following(address) as following:
        seen = []
        following.follower._on_news = lambda _: seen.append(
            (len(following.names()), following.table.is_complete)
        )
        await until(lambda: following.table.is_complete)
        assert seen == [(1, False), (2, False)]


async def test_an_empty_store_completes_the_table_at_once():
    store = Store()
    async with serving(store.receive) as address, Following(address) as following:
        await until(lambda: following.table.is_complete)


async def test_of_two_stores_the_newest_entry_counts_and_a_deletion_stays():
    old = Store(*users("alice", stamp=5), *users("bob", stamp=5))
    new = Store(*users("alice", stamp=9, status=UserStatus.DISABLE), Entry(Kind.USER, "bob", 9, None))
    async with (
        serving(old.receive) as first,
        serving(new.receive) as second,
        Following(first, second) as following,
    ):
        await until(lambda: len(following.follower.following) == 2)
        await until(lambda: old.held and new.held)
        assert following.names() == ["alice"]
        assert following.table.state.find("alice").user.is_disabled
        old.put(*users("bob", stamp=8))
        await until(lambda: old.held)
        assert following.table.find(Key(Kind.USER, "bob")).record is None


async def test_a_restarted_store_is_read_from_its_first_entry():
    store = Store(*users("alice", "bob"))
    async with serving(store.receive) as address, Following(address) as following:
        await until(lambda: store.held)
        fresh = Store(*users("carol"))
        store.table, store.run = fresh.table, "run-2"
        store.put()
        await until(lambda: "carol" in following.names())
        assert following.names() == ["alice", "bob", "carol"]


async def test_while_stores_are_away_the_last_state_counts():
    store = Store(*users("alice"))
    async with serving(store.receive) as address, Following(address) as following:
        await until(lambda: store.held)
    assert following.table.is_complete
    assert following.names() == ["alice"]


async def test_a_store_that_comes_back_is_followed_again():
    store = Store(*users("alice"))
    async with Following("127.0.0.1:1") as following:
        await asyncio.sleep(0.1)
        assert following.follower.following == []
        assert not following.table.is_complete
        async with serving(store.receive) as address:
            following.addresses[:] = [address]
            await until(lambda: following.follower.following == [address])


async def test_an_unreadable_entry_is_left_out_and_the_others_count():
    damaged = Entry(Kind.USER, "mallory", 3, b'{"v":1,"nonsense":true}')
    store = Store(*users("alice"), page_bytes=10**6)
    store.extra = [msgspec.Raw(b'{"v":99}'), msgspec.Raw(b"[]"), msgspec.Raw(encode_entry(damaged))]
    async with serving(store.receive) as address, Following(address) as following:
        await until(lambda: following.table.is_complete)
        assert following.names() == ["alice"]
        assert following.follower.unreadable >= 3


async def test_a_store_with_other_keys_is_not_followed():
    store = Store(*users("alice"))
    store.introductions = Introductions((b"x" * 32,), os.urandom)
    async with serving(store.receive) as address, Following(address) as following:
        await asyncio.sleep(0.2)
        assert following.names() == []
        assert not following.table.is_complete


async def test_policies_arrive_with_their_user():
    policies = policies_entry(SubjectPolicies(Subject("alice"), (policy("Allow Pub Topic:t"),)), 2)
    store = Store(policies, *users("alice"), page_bytes=10**6)
    async with serving(store.receive) as address, Following(address) as following:
        await until(lambda: following.table.is_complete)
        assert following.table.state.find("alice").policies.custom
