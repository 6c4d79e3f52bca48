"""Builds access control over an opened store: its requests, the door's view of records, and the other stores. Loaded only where it is on."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from broker_store.access.administration import AccessAdministration, ChangeAudit
from broker_store.access.asker import Asker, AskerOf
from broker_store.access.change_log import ChangeLog
from broker_store.access.changes_handler import ChangesHandler
from broker_store.access.followed import Followed
from broker_store.access.news import News, let_count, take_all
from broker_store.access.other_stores import OtherStores
from broker_store.access.plain_acl_handler import PlainAclHandlers
from broker_store.access.policies_handler import PolicyHandlers
from broker_store.access.record_topics import RecordTopics
from broker_store.access.users_handler import UserHandlers
from broker_store.opening.opened_store import OpenedStore
from broker_store.ports import Commands, Peer
from broker_store.process.foundation import Surroundings
from broker_store.process.parts.sending import Sending
from broker_store.requests.deferred_replies import DeferredReplies
from broker_store.transactions.producer_checks import Relays
from gantry_access.entries.entry import Entry, Key
from gantry_access.entries.table import AccessTable
from gantry_access.model.users import UserType
from gantry_access.rights.request_table import REQUESTS
from gantry_access.secrets.sealing import SealingKeys
from gantry_access.signatures.remoting import ACCESS_KEY
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.start_refusal import StartRefused
from gantry_guard.audit import Asked, Audit
from gantry_guard.door import Door
from gantry_guard.guard import Guard
from gantry_guard.introduction import INNER
from gantry_link.connections.connection import Connection
from gantry_wire.frames.command import Command
from gantry_wire.headers.access import AclVersionReplyHeader

RUN_BYTES = 8
OTHERS_SECONDS = 5.0
"""Longest time for which a start waits for the users of another broker: then those of its own log count."""
LOOK_SECONDS = 0.02
_log = get_logger()


class AccessControl:
    """Requests about users and policies, and what they change."""

    def __init__(
        self,
        around: Surroundings,
        store: OpenedStore,
        sending: Sending,
        table: AccessTable,
        keys: SealingKeys,
        asker_of: AskerOf,
        audit: ChangeAudit,
        is_introduced: Callable[[Connection], bool],
    ) -> None:
        """`table` counts from `begin` on: before it nobody but Gantry's own services is admitted.

        `is_introduced`: whether another store proved on a connection that it is one of the cluster.
        """
        settings, environment = around.settings, store.environment
        self.table = table
        self._entries = entries = store.states.access
        self._wall_ms, self._steady = environment.wall_ms, environment.steady
        self._news = News(table)
        self.log = ChangeLog(sending.appends, store.queues, entries, around.now_ms, self._news.took)
        self.followed = Followed(environment.steady)
        self.administration = administration = AccessAdministration(
            table, keys, self.log, environment.wall_ms, environment.secret_bytes, audit, self.followed
        )
        self._deferred = deferred = DeferredReplies(around.classes["adminBroker"], around.now_ms)
        names = AclVersionReplyHeader(
            version="", all_acl_file_version="", broker_name=settings.broker_name,
            broker_addr=around.address, cluster_name=settings.cluster_name,
        )  # fmt: skip
        run = environment.secret_bytes(RUN_BYTES).hex()
        self._parts = (
            UserHandlers(administration, deferred, asker_of),
            PolicyHandlers(administration, deferred, asker_of),
            PlainAclHandlers(administration, entries, deferred, asker_of, names),
            ChangesHandler(entries, administration, deferred, asker_of, run, self._news),
        )
        self._others: OtherStores | None = None
        if settings.nameservers:
            self._others = OtherStores(
                around.pool,
                settings.nameservers,
                settings.cluster_name,
                settings.broker_name,
                table,
                self.log,
                self.followed,
                is_introduced,
            )

    def begin(self) -> None:
        """Take the users of the log: it is read to its end. Where there may be other stores, they do not count yet. Raises StartRefused."""
        take_all(self.table, list(self._entries.entries()), is_complete=self._others is None)

    async def settle(self, is_stopping: Callable[[], bool]) -> None:
        """Let the users count, once those of another broker were read, there is none, or the time is over. Not while it stops.

        What this store has missed while it was away would count otherwise: deleted users, and rights that were taken away. Meanwhile
        Gantry's own services are served, so that stores that start at one time read each other.
        """
        until = self._steady() + OTHERS_SECONDS
        while self._others is not None and not self._others.is_read:
            if is_stopping():
                return
            if self._steady() > until:
                _log.warning(
                    "no other store was read: the users of this store's log count", seconds=OTHERS_SECONDS
                )
                break
            await asyncio.sleep(LOOK_SECONDS)
        let_count(self.table)

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {code: entry for part in self._parts for code, entry in part.commands().items()}

    def loops(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the background loops."""
        return {} if self._others is None else self._others.loops()

    def forget(self) -> Iterable[Key]:
        """Forget tokens that ended long ago, and return their keys."""
        return self.table.forget(self._wall_ms())

    async def close(self) -> None:
        """Answer followers, and finish running changes."""
        self._news.close()
        await self._deferred.close()


def control_of(guard: Guard, around: Surroundings, store: OpenedStore, sending: Sending) -> AccessControl:
    """Return the access control of a store with a guard."""

    def asker_of(peer: Peer, command: Command) -> Asker:
        """Return the user of a request, by its signature or else its connection's certificate. Of others the door admits only services' own."""
        name, address = command.ext.get(ACCESS_KEY, ""), peer.remote[0]
        if not name and INNER in peer.attributes:
            return Asker("", UserType.INNER, address)
        name = name or guard.certificates.user_of(peer)
        account = guard.table.state.find(name)
        return Asker(name, UserType.NORMAL if account is None else account.user.type, address)

    audit = _auditing(guard.audit)
    is_introduced = guard.introducer.is_introduced
    return AccessControl(
        around, store, sending, guard.table, guard.keys.sealing, asker_of, audit, is_introduced
    )


def door_of(guard: Guard, around: Surroundings, store: OpenedStore, relays: Relays) -> Door:
    """Return the door of a store's ports. `relays`: halves of other brokers that its clients were asked about."""
    return guard.door(around.settings.cluster_name, RecordTopics(store.log, relays.topic_of).topic_of)


def demand_rows(codes: Iterable[int]) -> None:
    """Raise StartRefused if no row says what one of these request codes requires."""
    missing = sorted(set(codes) - set(REQUESTS))
    if missing:
        raise StartRefused(
            f"no row of rights for the request codes {missing}: add it to gantry_access.rights.request_table"
        )


def _auditing(audit: Audit) -> ChangeAudit:
    def changed(asker: Asker, before: Entry | None, after: Entry) -> None:
        asked = Asked(asker.name, asker.address, f"{after.kind.value} {after.name}")
        audit.changed(asked, shown_entry(before), shown_entry(after))

    return changed


def shown_entry(entry: Entry | None) -> str:
    """Return the record of an entry for the audit log: without secrets, and without the hash of a token. Empty if there is none."""
    if entry is None or entry.record is None:
        return ""
    content = msgspec.json.decode(entry.record, type=dict[str, object])
    secrets = content.pop("secrets", None)
    content.pop("hash", None)
    if isinstance(secrets, list):
        content["secrets"] = len(secrets)  # pyright: ignore[reportUnknownArgumentType]
    return msgspec.json.encode(content).decode()
