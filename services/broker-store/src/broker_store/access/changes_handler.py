"""Requests 9055 and 9056 of Gantry's own services: follow the entries of this store, and change them."""

import msgspec

from broker_store.access.access_entries import AccessEntries
from broker_store.access.administration import AccessAdministration
from broker_store.access.asker import Asker, AskerOf
from broker_store.access.news import News
from broker_store.ports import Commands, Peer
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_access.entries.entry import encode_entry
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import GantryCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.private_requests.access_change import AccessChanged, WantedEntry, decode_change
from gantry_wire.private_requests.access_changes import (
    PAGE_BYTES_MAX,
    WAIT_MS_MAX,
    AccessChanges,
    AskAccessChanges,
)

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
        news: News,
    ) -> None:
        """`run` names this run of the store: versions of another run mean something else."""
        self._entries = entries
        self._administration = administration
        self._deferred = deferred
        self._asker_of = asker_of
        self._run = run
        self._news = news
        self.waiting = 0
        """Followers that wait now."""

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            GantryCode.ACCESS_CHANGES: ("adminBroker", self.changes),
            GantryCode.ACCESS_CHANGE: ("adminBroker", self.change),
        }

    def changes(self, peer: Peer, command: Command) -> None:
        """Handle 9055: entries since a version; without any, the next one."""
        self._deferred.answer(
            peer, command, self._changes(command, decode_body(command.body, AskAccessChanges))
        )

    def change(self, peer: Peer, command: Command) -> None:
        """Handle 9056: store entries that a service wants, all or none."""
        wanted = decode_change(command.body)
        asker = self._asker_of(peer, command)
        if wanted.by:
            asker = asker._replace(name=wanted.by)
        self._deferred.answer(peer, command, self._change(command, asker, wanted.entries))

    async def _change(self, command: Command, asker: Asker, wanted: list[WantedEntry]) -> bytes:
        try:
            entries = await self._administration.change(asker, wanted)
        except RefusedRequest as refusal:
            return encode_response(refusal.code, command.opaque, refusal.fields, remark=refusal.remark)
        stored = AccessChanged(entries=[msgspec.Raw(encode_entry(entry)) for entry in entries])
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=msgspec.json.encode(stored))

    async def _changes(self, command: Command, asked: AskAccessChanges) -> bytes:
        known = asked.version if asked.run == self._run else -1
        has_room = self.waiting < WAITERS_MAX
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
            await self._news.wait(seconds)
        finally:
            self.waiting -= 1
