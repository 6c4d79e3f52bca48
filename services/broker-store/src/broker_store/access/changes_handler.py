"""Requests 9055 and 9056 of Gantry's own services: follow the entries of this store, and store new ones."""

import asyncio
from functools import partial

import msgspec

from broker_store.access.access_entries import AccessEntries
from broker_store.access.administration import AccessAdministration
from broker_store.access.asker import AskerOf
from broker_store.access.users_handler import answered
from broker_store.ports import Commands, Peer
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_access.entries.entry import decode_entry
from gantry_access.errors import UnreadableRecord
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import GantryCode, ResponseCode
from gantry_wire.errors import MalformedBody
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.private_requests.access_changes import (
    PAGE_BYTES_MAX,
    WAIT_MS_MAX,
    AccessChanges,
    AskAccessChanges,
)
from gantry_wire.private_requests.access_put import AccessPut

WAITERS_MAX = 1000
"""Followers that wait at once. Another one is answered at once, and asks again when it likes."""


class ChangesHandler:
    """Answers followers, at once or with the next change."""

    def __init__(
        self,
        entries: AccessEntries,
        administration: AccessAdministration,
        deferred: DeferredReplies,
        asker_of: AskerOf,
        run: str,
    ) -> None:
        """`run` names this run of the store: versions of another run mean something else."""
        self._entries = entries
        self._administration = administration
        self._deferred = deferred
        self._asker_of = asker_of
        self._run = run
        self._news = asyncio.Event()
        self._is_closed = False
        self.waiting = 0
        """Followers that wait now."""

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            GantryCode.ACCESS_CHANGES: ("adminBroker", self.changes),
            GantryCode.ACCESS_PUT: ("adminBroker", self.put),
        }

    def changed(self) -> None:
        """Answer all that wait: there is a new entry."""
        self._news.set()
        self._news = asyncio.Event()

    def close(self) -> None:
        """Answer all that wait, and let no one wait any more."""
        self._is_closed = True
        self.changed()

    def changes(self, peer: Peer, command: Command) -> None:
        """Handle 9055: entries since a version; without any, the next one."""
        self._deferred.answer(
            peer, command, self._changes(command, decode_body(command.body, AskAccessChanges))
        )

    def put(self, peer: Peer, command: Command) -> None:
        """Handle 9056: store entries, if each of them replaces what this store has."""
        try:
            asked = msgspec.json.decode(command.body, type=AccessPut)
            entries = [decode_entry(bytes(raw)) for raw in asked.entries]
        except (ValueError, RecursionError, UnreadableRecord) as error:
            raise MalformedBody(f"the entries cannot be read: {error}") from error
        asker = self._asker_of(peer, command)
        if asked.user:
            asker = asker._replace(name=asked.user, address=asked.address)
        put = partial(self._administration.put_entries, asker, entries)
        self._deferred.answer(peer, command, answered(command, put))

    async def _changes(self, command: Command, asked: AskAccessChanges) -> bytes:
        known = asked.version if asked.run == self._run else -1
        has_room = self.waiting < WAITERS_MAX and not self._is_closed
        if known >= self._entries.version and asked.wait_ms > 0 and has_room:
            await self._next(min(asked.wait_ms, WAIT_MS_MAX) / 1000)
        page = self._entries.since(known, PAGE_BYTES_MAX)
        changes = AccessChanges(
            run=self._run,
            version=page.version,
            entries=[msgspec.Raw(data) for data in page.entries],
            more=page.has_more,
        )
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=msgspec.json.encode(changes))

    async def _next(self, seconds: float) -> None:
        self.waiting += 1
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return
        finally:
            self.waiting -= 1
