"""Writes changes of users, policies and tokens: one store takes them, and the table of this process has them at once.

A change says from which entry it was made, so of two administrators that change the same user at one time, one gets 409.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from gantry_access.entries.entry import Entry, Key, Kind, decode_entry
from gantry_access.entries.table import AccessTable
from gantry_access.errors import UnreadableRecord
from gantry_wire.private_requests.access_change import CONFLICT, DELETED, AccessChange, EntryKind, WantedEntry
from gateway.http.problems import Problem, away, refused, unanswered
from gateway.ports.access_changes import AccessChanges
from gateway.ports.stores import PeerAway, StoreRefused
from gateway.routing.fleet import Fleet


class Wanted(NamedTuple):
    """One entry as it shall be; without a record it is deleted."""

    key: Key
    record: bytes | None


class Changes:
    """Writes entries to a store."""

    def __init__(self, table: AccessTable, fleet: Fleet, stores: AccessChanges) -> None:
        self._table, self._fleet, self._stores = table, fleet, stores

    async def write(self, wanted: Sequence[Wanted], by: str) -> str:
        """Store all entries or none; return the name of the store that took them.

        Raise 409 if another change came between, 503 if no store answers.
        """
        change = AccessChange(entries=[self._entry(one) for one in wanted], by=by)
        brokers, _gone = await self._fleet.brokers()
        trouble: Problem | None = None
        for broker in brokers:
            try:
                answer = await self._stores.change(broker, change)
            except (
                PeerAway
            ) as error:  # the next store may take it also if this one did: it is the same change
                trouble = unanswered(error, is_write=False)
            except StoreRefused as error:
                if error.gantry_code == CONFLICT:
                    raise conflict("it was changed at the same time; read it again") from error
                raise refused(error) from error
            else:
                self._take(answer.entries, broker.name)
                return broker.name
        assert trouble is not None, "there is a broker"
        raise trouble

    def _entry(self, one: Wanted) -> WantedEntry:
        known = self._table.find(one.key)
        return WantedEntry(
            kind=_KINDS[one.key.kind],
            name=one.key.name,
            record=msgspec.Raw(DELETED if one.record is None else one.record),
            made_from_ms=0 if known is None else known.stamp_ms,
        )

    def _take(self, raws: Sequence[msgspec.Raw], broker: str) -> None:
        """Take the stored entries without waiting for the store's news, so that the next call sees them."""
        try:
            entries: list[Entry] = [decode_entry(bytes(raw)) for raw in raws]
            self._table.take(entries)
        except UnreadableRecord as error:
            raise away(
                f"broker {broker} took the change, and answered what this gateway cannot read: {error}"
            ) from error


_KINDS: dict[Kind, EntryKind] = {Kind.USER: "user", Kind.POLICIES: "policies", Kind.TOKEN: "token"}


def conflict(detail: str) -> Problem:
    """Return 409: the stored entry is another one than the change was made from."""
    return Problem(409, CONFLICT, detail)
