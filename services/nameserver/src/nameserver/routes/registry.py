"""Tracks living brokers and their topics: register, heartbeat, unregister, channel closed, expire.

Pure: takes events and `now_ms`, changes the tables, returns what changed. Follows the rules of RocketMQ 5.3.3.
"""

from __future__ import annotations

from typing import NamedTuple

from gantry_wire.bodies.cluster import BrokerData, DataVersion, QueueData, RegisterBrokerBody, TopicConfig
from nameserver.routes.tables import (
    BROKER_IDS_MAX,
    EXPIRY_MS,
    MASTER_ID,
    PERM_WRITE,
    REQUESTED_EXPIRY_MS_MAX,
    REQUESTED_EXPIRY_MS_MIN,
    Change,
    Leader,
    LiveBroker,
    Member,
    MinIdChanged,
    Place,
    Tables,
)
from nameserver.switches import Switches


class BrokerIdentity(NamedTuple):
    """How a broker identifies itself. `acting_master` is None for a broker older than 5.0."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str = ""
    zone_name: str | None = None
    expiry_ms: int | None = None
    acting_master: bool | None = None

    @property
    def place(self) -> Place:
        """The key of the broker among the living ones."""
        return Place(self.cluster, self.address)


class Registration(NamedTuple):
    """The answer to a registration. The addresses are for slaves with a known master."""

    change: Change
    master_address: str | None = None
    ha_address: str | None = None


class RegisterRefused(Exception):
    """The registration is not allowed."""


class BrokerIsAlive(RegisterRefused):
    """Another connected broker holds the place. A takeover would receive what clients send to that broker."""


class BrokerIsOutdated(RegisterRefused):
    """Another address led this broker name in a later epoch."""


class Registry:
    """The living brokers."""

    def __init__(self, tables: Tables, switches: Switches) -> None:
        self._tables = tables
        self._switches = switches

    def register(
        self, identity: BrokerIdentity, body: RegisterBrokerBody, channel: int, now_ms: int
    ) -> Registration:
        """Register a broker and its topics.

        Raises RegisterRefused for a single topic of an unknown broker and for an expiry out of bounds, and
        BrokerIsAlive for the place of another connected broker, and for the name of one in another cluster. A broker that returns at another address is accepted
        once its old connection closed or was silent for its expiry. A replica of a later epoch (`state_version`) takes the place of one of an earlier
        epoch at once. Raises BrokerIsOutdated for a master whose name another address led in a later epoch, also while that one is away.
        """
        _check_expiry(identity)
        tables = self._tables
        wrapper = body.topic_config_serialize_wrapper
        version, topics = wrapper.data_version, wrapper.topic_config_table
        data = tables.brokers.get(identity.broker_name)
        known = data.broker_addrs if data is not None else {}
        if data is not None:
            self._refuse_takeover(identity, data, version, channel, now_ms)
        if self._is_outdated(identity, known, version):
            tables.forget(identity.place)
            return Registration(Change())
        if identity.broker_id not in known and identity.address not in known.values() and len(topics) == 1:
            raise RegisterRefused("register broker failed")
        self._refuse_outdated_leader(identity, version)
        if identity.broker_id not in known and len(known) >= BROKER_IDS_MAX:
            raise RegisterRefused(
                f"broker name {identity.broker_name} has {BROKER_IDS_MAX} broker ids, the maximum; unregister one first"
            )
        change = Change()
        is_new = self._assign_id(identity, change)
        data = tables.brokers[identity.broker_name]
        if identity.broker_id == MASTER_ID:
            tables.leaders[identity.broker_name] = Leader(identity.address, version.state_version)
        if identity.broker_id == MASTER_ID or self._is_prime_slave(identity, data, version):
            self._take_topics(identity, topics, version, change, is_new=is_new)
        expiry_ms = EXPIRY_MS if identity.expiry_ms is None else identity.expiry_ms
        tables.hear(identity.place, LiveBroker(now_ms, expiry_ms, version, channel, identity.ha_address))
        self._take_filter_servers(identity.place, body.filter_server_list)
        if is_new:
            change.topics.update(tables.topics_of(identity.broker_name))
        return self._answer(identity, data, change)

    def heartbeat(self, place: Place, now_ms: int) -> bool:
        """Record a heartbeat. Returns False for an unknown broker."""
        live = self._tables.live.get(place)
        if live is None:
            return False
        live.heard_at_ms = now_ms
        return True

    def version_of(self, place: Place) -> DataVersion | None:
        """Return the known data version of a broker's topics; None for an unknown broker."""
        live = self._tables.live.get(place)
        return None if live is None else live.version

    def leave(self, identity: BrokerIdentity, channel: int) -> Change:
        """Unregister a broker over its own connection. Raises BrokerIsAlive over another one.

        The cluster that counts is the one in which the broker registered, whatever cluster the request names.
        """
        data = self._tables.brokers.get(identity.broker_name)
        live = self._tables.live.get(
            identity.place if data is None else Place(data.cluster, identity.address)
        )
        if live is not None and live.channel != channel:
            raise BrokerIsAlive(
                f"broker {identity.broker_name} at {identity.address} is connected over another connection; only that one can unregister it"
            )
        return self.unregister(identity)

    def unregister(self, identity: BrokerIdentity) -> Change:
        """Remove a broker, and with the last broker of its name that name's queues."""
        tables, change = self._tables, Change()
        live = tables.forget(identity.place)
        tables.filter_servers.pop(identity.place, None)
        data = tables.brokers.get(identity.broker_name)
        if data is None:
            return change
        before = min(data.broker_addrs, default=None)
        gone = [number for number, address in data.broker_addrs.items() if address == identity.address]
        for number in gone:
            tables.drop_address(data, number)
        if gone:
            change.topics.update(tables.topics_of(identity.broker_name))
        if not data.broker_addrs:
            tables.drop_broker(data.broker_name)
        elif gone:
            self._after_loss(data, before, identity.address, live.ha_address if live else None, change)
        return change

    def channel_closed(self, channel: int) -> Change:
        """Remove every broker last heard of over a closed connection."""
        return self._remove(self._tables.places_of(channel))

    def expire(self, now_ms: int) -> Change:
        """Remove every broker that was silent for its expiry; the shell closes their connections."""
        late = {
            place: live.channel
            for place, live in self._tables.live.items()
            if now_ms - live.heard_at_ms > live.expiry_ms
        }
        change = self._remove([*late, *self._orphans()])
        change.lost_channels.update(late.values())
        return change

    def _refuse_takeover(
        self, identity: BrokerIdentity, data: BrokerData, version: DataVersion, channel: int, now_ms: int
    ) -> None:
        if identity.cluster != data.cluster:
            self._refuse_other_cluster(identity, data, channel, now_ms)
        occupant = data.broker_addrs.get(identity.broker_id)
        if occupant is None or occupant == identity.address:
            return
        place = Place(data.cluster, occupant)
        if not self._is_alive_elsewhere(place, channel, now_ms) or self._is_superseded(place, version):
            return
        raise BrokerIsAlive(
            f"broker {identity.broker_name} with id {identity.broker_id} is alive at {occupant} over another connection; {identity.address} "
            "can take its place when that connection is closed, or was silent for too long"
        )

    def _refuse_other_cluster(
        self, identity: BrokerIdentity, data: BrokerData, channel: int, now_ms: int
    ) -> None:
        """Refuse the name of a living broker of another cluster: its routes would change by a right on the other cluster alone."""
        for address in data.broker_addrs.values():
            if self._is_alive_elsewhere(Place(data.cluster, address), channel, now_ms):
                raise BrokerIsAlive(
                    f"broker {identity.broker_name} of the cluster {data.cluster} is alive at {address} over another connection; "
                    f"{identity.address} cannot register that name for the cluster {identity.cluster}"
                )

    def _is_alive_elsewhere(self, place: Place, channel: int, now_ms: int) -> bool:
        """Whether a broker is alive over another connection."""
        live = self._tables.live.get(place)
        return live is not None and live.channel != channel and now_ms - live.heard_at_ms <= live.expiry_ms

    def _is_superseded(self, place: Place, version: DataVersion) -> bool:
        """Whether a registration is of a later epoch than the broker at a place: its group has another leader now.

        A paused leader keeps its connection open. A broker without an epoch has no replicas, so an epoch does not take its place.
        """
        live = self._tables.live.get(place)
        return live is not None and 0 < live.version.state_version < version.state_version

    def _refuse_outdated_leader(self, identity: BrokerIdentity, version: DataVersion) -> None:
        """Refuse a leader of an earlier epoch, also while the newest is away: it would take what clients send, and acknowledge nothing."""
        newest = self._tables.leaders.get(identity.broker_name)
        if identity.broker_id != MASTER_ID or newest is None or newest.address == identity.address:
            return
        if version.state_version < newest.epoch:
            raise BrokerIsOutdated(
                f"broker {identity.broker_name} at {identity.address} is of epoch {version.state_version}; {newest.address} led it in epoch {newest.epoch}"
            )

    def _is_outdated(self, identity: BrokerIdentity, known: dict[int, str], version: DataVersion) -> bool:
        """Whether another address holds this broker id with a newer state: the registering broker was replaced."""
        occupant = known.get(identity.broker_id)
        if occupant is None or occupant == identity.address:
            return False
        live = self._tables.live.get(Place(identity.cluster, occupant))
        return live is not None and live.version.state_version > version.state_version

    def _assign_id(self, identity: BrokerIdentity, change: Change) -> bool:
        """Put the address under its broker id; return True when that id was free, or the address had another."""
        tables = self._tables
        data = tables.join(identity.cluster, identity.broker_name)
        if data.enable_acting_master != bool(identity.acting_master):
            data.enable_acting_master = not data.enable_acting_master
            change.topics.update(tables.topics_of(identity.broker_name))
        data.zone_name = identity.zone_name
        addresses = data.broker_addrs
        lowest_before = min(addresses, default=MASTER_ID)
        # A slave that becomes master keeps its address and moves to its new id.
        earlier = [
            n for n, address in addresses.items() if address == identity.address and n != identity.broker_id
        ]
        for number in earlier:
            tables.drop_address(data, number)
            change.topics.update(tables.topics_of(identity.broker_name))
        occupant = addresses.get(identity.broker_id)
        tables.put_address(data, identity.broker_id, identity.address)
        if occupant is not None and occupant != identity.address:
            change.topics.update(tables.topics_of(identity.broker_name))
        if identity.broker_id < lowest_before:
            self._notice(data, None, identity.ha_address, change)
        return occupant is None or bool(earlier)

    def _is_prime_slave(self, identity: BrokerIdentity, data: BrokerData, version: DataVersion) -> bool:
        """Whether a slave registers topics in place of the absent master: not with those of an earlier epoch."""
        newest = self._tables.leaders.get(identity.broker_name)
        is_older = newest is not None and version.state_version < newest.epoch
        return (
            identity.acting_master is not None
            and identity.broker_id == min(data.broker_addrs)
            and not is_older
        )

    def _take_topics(
        self,
        identity: BrokerIdentity,
        topics: dict[str, TopicConfig],
        version: DataVersion,
        change: Change,
        *,
        is_new: bool,
    ) -> None:
        tables, name = self._tables, identity.broker_name
        if self._switches.delete_topic_with_broker_registration:
            gone = [topic for topic in tables.topics_of(name) if topic not in topics]
            change.topics.update(topic for topic in gone if tables.drop_queues(topic, name))
        is_changed = is_new or self.version_of(identity.place) != version
        is_read_only = identity.broker_id != MASTER_ID and bool(identity.acting_master)
        for topic, config in topics.items():
            held = tables.topics.get(topic, {}).get(name)
            if not is_changed and held is not None:
                continue
            perm = config.perm & ~PERM_WRITE if is_read_only else config.perm
            found = QueueData(
                broker_name=name,
                perm=perm,
                read_queue_nums=config.read_queue_nums,
                topic_sys_flag=config.topic_sys_flag,
                write_queue_nums=config.write_queue_nums,
            )
            if held != found:
                tables.put_queues(topic, found)
                change.topics.add(topic)

    def _take_filter_servers(self, place: Place, servers: list[str]) -> None:
        if not servers:
            self._tables.filter_servers.pop(place, None)
        elif self._tables.filter_servers.get(place) != servers:
            self._tables.filter_servers[place] = servers

    def _answer(self, identity: BrokerIdentity, data: BrokerData, change: Change) -> Registration:
        master = data.broker_addrs.get(MASTER_ID)
        if identity.broker_id == MASTER_ID or master is None:
            return Registration(change)
        live = self._tables.live.get(Place(identity.cluster, master))
        return Registration(change) if live is None else Registration(change, master, live.ha_address)

    def _remove(self, places: list[Place]) -> Change:
        total = Change()
        for place in places:
            self._tables.forget(place)
            for name in self._tables.names_at(place.address):
                change = self.unregister(BrokerIdentity(place.cluster, name, -1, place.address))
                total.topics |= change.topics
                total.notices += change.notices
        return total

    def _orphans(self) -> list[Place]:
        """Return addresses no living broker claims, such as those of a renamed broker."""
        living = {place.address for place in self._tables.live}
        return [
            Place(data.cluster, address)
            for data in self._tables.brokers.values()
            for address in data.broker_addrs.values()
            if address not in living
        ]

    def _after_loss(
        self, data: BrokerData, lowest_before: int | None, gone: str, ha_address: str | None, change: Change
    ) -> None:
        """Continue with the remaining brokers of the name. Without a master they lose write permission."""
        lowest = min(data.broker_addrs)
        if data.enable_acting_master and lowest > MASTER_ID:
            for topic in self._tables.topics_of(data.broker_name):
                self._tables.topics[topic][data.broker_name].perm &= ~PERM_WRITE
        if lowest_before != lowest:
            self._notice(data, gone, ha_address, change)

    def _notice(self, data: BrokerData, offline: str | None, ha_address: str | None, change: Change) -> None:
        """Notify the living members of a broker name: all of them after a loss, otherwise all but the newcomer."""
        if not self._switches.notify_min_broker_id_changed:
            return
        lowest = min(data.broker_addrs)
        members = tuple(
            Member(address, live.channel)
            for address in data.broker_addrs.values()
            if offline is not None or address != data.broker_addrs[lowest]
            if (live := self._tables.live.get(Place(data.cluster, address))) is not None
        )
        change.notices.append(
            MinIdChanged(data.broker_name, lowest, data.broker_addrs[lowest], offline, ha_address, members)
        )


def _check_expiry(identity: BrokerIdentity) -> None:
    requested = identity.expiry_ms
    if requested is not None and not REQUESTED_EXPIRY_MS_MIN <= requested <= REQUESTED_EXPIRY_MS_MAX:
        raise RegisterRefused(
            f"heartbeatTimeoutMillis of broker {identity.broker_name} is {requested}; it must be {REQUESTED_EXPIRY_MS_MIN} to {REQUESTED_EXPIRY_MS_MAX}"
        )
