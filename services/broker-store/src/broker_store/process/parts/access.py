"""Builds what a store keeps of users and policies: requests, followers, and the care that no entry leaves the log."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from broker_store.access.administration import AccessAdministration, ChangeAudit
from broker_store.access.asker import AskerOf
from broker_store.access.change_log import ChangeLog
from broker_store.access.changes_handler import ChangesHandler
from broker_store.access.plain_acl_handler import PlainAclHandlers
from broker_store.access.policies_handler import PolicyHandlers
from broker_store.access.switched_off import off_commands
from broker_store.access.users_handler import UserHandlers
from broker_store.opening.opened_store import OpenedStore
from broker_store.ports import Commands
from broker_store.process.disk_care import DiskCare
from broker_store.process.foundation import Surroundings
from broker_store.process.parts.sending import Sending
from broker_store.requests.deferred_replies import DeferredReplies
from gantry_access.entries.entry import Entry
from gantry_access.entries.table import AccessTable
from gantry_access.errors import UnknownRecordVersion, UnreadableRecord
from gantry_access.secrets.sealing import SealingKeys
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.start_refusal import StartRefused
from gantry_wire.errors import RefusedRequest
from gantry_wire.headers.access import AclVersionReplyHeader

ROLL_SECONDS = 1.0
"""How often the store looks whether retention waits for entries."""
RUN_BYTES = 8
_log = get_logger()


@dataclass(frozen=True, slots=True)
class AccessControl:
    """What decides about requests, where access control is on."""

    table: AccessTable
    keys: SealingKeys
    asker_of: AskerOf
    audit: ChangeAudit

    def took(self, entry: Entry) -> None:
        """Let an entry of the log count. One that cannot be read is reported: its user keeps the rights of before, or has none."""
        try:
            self.table.take([entry])
        except UnreadableRecord as error:
            _log.error("an entry of access control cannot be read", entry=entry.name, error=str(error))


class Access:
    """Users and policies as one feature."""

    def __init__(
        self, around: Surroundings, store: OpenedStore, sending: Sending, care: DiskCare, on: AccessControl | None
    ) -> None:  # fmt: skip
        """Without `on` the entries of the log are kept, and requests about them refused."""
        self._entries = entries = store.states.access
        self._care = care
        self._on = on
        self._wall_ms = store.environment.wall_ms
        self._deferred = DeferredReplies(around.classes["adminBroker"], around.now_ms)
        self.log = ChangeLog(sending.appends, store.queues, entries, around.now_ms, self._news)
        self.administration: AccessAdministration | None = None
        self._changes: ChangesHandler | None = None
        self._commands = off_commands() if on is None else self._build(on, around, store)
        metrics, log = around.metrics, self.log
        metrics.gauge(
            "gantry_store_access_entries", "Users, policies, tokens and deletions kept.", lambda: len(entries)
        )
        metrics.counted(
            "gantry_store_access_rolled",
            "Entries appended again so that a segment can be deleted.",
            lambda: log.rolled,
        )

    def _build(self, on: AccessControl, around: Surroundings, store: OpenedStore) -> Commands:
        settings, secret_bytes = around.settings, store.environment.secret_bytes
        self.administration = administration = AccessAdministration(
            on.table, on.keys, self.log, self._wall_ms, secret_bytes, on.audit
        )
        self._changes = changes = ChangesHandler(
            self._entries, administration, self._deferred, on.asker_of, secret_bytes(RUN_BYTES).hex()
        )
        names = AclVersionReplyHeader(
            version="", all_acl_file_version="", broker_name=settings.broker_name,
            broker_addr=around.address, cluster_name=settings.cluster_name,
        )  # fmt: skip
        parts = (
            UserHandlers(administration, self._deferred, on.asker_of),
            PolicyHandlers(administration, self._deferred, on.asker_of),
            PlainAclHandlers(administration, self._entries, self._deferred, on.asker_of, names),
            changes,
        )
        return {code: entry for part in parts for code, entry in part.commands().items()}

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return self._commands

    def loops(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the background loops."""
        return {"access records": self._keep_in_log}

    def closed(self, _peer: object) -> None:
        """Do nothing: no state depends on a connection, and a follower's answer goes nowhere."""

    async def close(self) -> None:
        """Answer followers, and finish running changes."""
        if self._changes is not None:
            self._changes.close()
        await self._deferred.close()

    def _news(self, entry: Entry) -> None:
        if self._on is not None:
            self._on.took(entry)
        if self._changes is not None:
            self._changes.changed()

    async def _keep_in_log(self) -> None:
        """Append entries again while retention waits for their segment. Supervised."""
        while True:
            await asyncio.sleep(ROLL_SECONDS)
            await self.roll()

    async def roll(self) -> None:
        """Append again what retention waits for. What cannot be appended keeps its segment."""
        if not self._care.roll_below:
            return
        if self._on is not None:
            self._entries.drop(self._on.table.forget(self._wall_ms()))
        try:
            await self.log.roll(self._care.roll_below)
        except RefusedRequest as refusal:
            _log.warning("entries of users keep a segment that is due for deletion", reason=refusal.remark)


def take_all(table: AccessTable, entries: list[Entry]) -> None:
    """Let the entries of a log count. Raises StartRefused for one of a later version; reports one that cannot be read.

    Without it its user keeps no right, or does not exist.
    """
    try:
        table.take(entries)
    except UnreadableRecord:
        for entry in entries:
            try:
                table.take([entry])
            except UnknownRecordVersion as error:
                raise StartRefused(
                    f"the log holds users of a later version of this program: {error}"
                ) from error
            except UnreadableRecord as error:
                _log.error("an entry of access control cannot be read", entry=entry.name, error=str(error))
