"""Which brokers are alive and what they hold: register, heartbeat, unregister, channel closed, expire.

Pure: takes events and `now_ms`, changes the tables, returns what changed. Rules are those of RocketMQ 5.3.3.
"""

from __future__ import annotations

from typing import NamedTuple

from gantry_wire.bodies import BrokerData, DataVersion, QueueData, RegisterBrokerBody, TopicConfig
from nameserver.switches import Switches
from nameserver.tables import (
    ASKED_EXPIRY_MS_MAX,
    ASKED_EXPIRY_MS_MIN,
    BROKER_IDS_MAX,
    EXPIRY_MS,
    MASTER_ID,
    PERM_WRITE,
    Change,
    LiveBroker,
    Member,
    MinIdChanged,
    Place,
    Tables,
)


class BrokerIdentity(NamedTuple):
    """Who a broker says it is. `acting_master` None: a broker older than 5.0."""

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
        """The key under which the broker is known to live."""
        return Place(self.cluster, self.address)


class Registration(NamedTuple):
    """Answer to a registration. The addresses are for slaves whose master is known."""

    change: Change
    master_address: str | None = None
    ha_address: str | None = None


class RegisterRefused(Exception):
    """The broker may not register so."""


class BrokerIsAlive(RegisterRefused):
    """Somebody else holds the place and is still there: whoever took it over would get what clients send to that broker."""


class Registry:
    """The living brokers."""

    def __init__(self, tables: Tables, switches: Switches) -> None:
        self._tables = tables
        self._switches = switches

    def register(
        self, who: BrokerIdentity, body: RegisterBrokerBody, channel: int, now_ms: int
    ) -> Registration:
        """Take in that a broker lives and what it holds.

        Raises RegisterRefused for a single topic of an unknown broker and for a time out of bounds, BrokerIsAlive for the place of another one that is connected. A
        broker that comes back at another address is taken in as soon as its old connection is closed, or has been silent for its time.
        """
        _check_expiry(who)
        tables = self._tables
        wrapper = body.topic_config_serialize_wrapper
        version, topics = wrapper.data_version, wrapper.topic_config_table
        data = tables.brokers.get(who.broker_name)
        known = data.broker_addrs if data is not None else {}
        if data is not None:
            self._refuse_takeover(who, data, channel, now_ms)
        if self._is_outdated(who, known, version):
            tables.forget(who.place)
            return Registration(Change())
        if who.broker_id not in known and who.address not in known.values() and len(topics) == 1:
            raise RegisterRefused("register broker failed")
        if who.broker_id not in known and len(known) >= BROKER_IDS_MAX:
            raise RegisterRefused(
                f"broker name {who.broker_name} has {BROKER_IDS_MAX} broker ids, which is the most; unregister one first"
            )
        change = Change()
        is_new = self._seat(who, change)
        data = tables.brokers[who.broker_name]
        if who.broker_id == MASTER_ID or self._is_prime_slave(who, data):
            self._take_topics(who, topics, version, change, is_new=is_new)
        expiry_ms = EXPIRY_MS if who.expiry_ms is None else who.expiry_ms
        tables.hear(who.place, LiveBroker(now_ms, expiry_ms, version, channel, who.ha_address))
        self._take_filter_servers(who.place, body.filter_server_list)
        if is_new:
            change.topics.update(tables.topics_of(who.broker_name))
        return self._answer(who, data, change)

    def heartbeat(self, place: Place, now_ms: int) -> bool:
        """Note that a broker lives; False when it is not known."""
        live = self._tables.live.get(place)
        if live is None:
            return False
        live.heard_at_ms = now_ms
        return True

    def version_of(self, place: Place) -> DataVersion | None:
        """Return the version of a broker's topics that is held, None when the broker is not known."""
        live = self._tables.live.get(place)
        return None if live is None else live.version

    def leave(self, who: BrokerIdentity, channel: int) -> Change:
        """Take out a broker that says it leaves, over the connection that it is known by. Raises BrokerIsAlive over another one."""
        live = self._tables.live.get(who.place)
        if live is not None and live.channel != channel:
            raise BrokerIsAlive(
                f"broker {who.broker_name} at {who.address} is connected, and this is not its connection: only it can leave"
            )
        return self.unregister(who)

    def unregister(self, who: BrokerIdentity) -> Change:
        """Take a broker out, and with the last broker of its name that name's queues."""
        tables, change = self._tables, Change()
        live = tables.forget(who.place)
        tables.filter_servers.pop(who.place, None)
        data = tables.brokers.get(who.broker_name)
        if data is None:
            return change
        before = min(data.broker_addrs, default=None)
        gone = [number for number, address in data.broker_addrs.items() if address == who.address]
        for number in gone:
            tables.drop_address(data, number)
        if gone:
            change.topics.update(tables.topics_of(who.broker_name))
        if not data.broker_addrs:
            tables.drop_broker(data.broker_name)
        elif gone:
            self._after_loss(data, before, who.address, live.ha_address if live else None, change)
        return change

    def channel_closed(self, channel: int) -> Change:
        """Take out every broker that was last heard of over a connection that is closed now."""
        return self._remove(self._tables.places_of(channel))

    def expire(self, now_ms: int) -> Change:
        """Take out every broker that was not heard of for its time; their connections are to be closed."""
        late = {
            place: live.channel
            for place, live in self._tables.live.items()
            if now_ms - live.heard_at_ms > live.expiry_ms
        }
        change = self._remove([*late, *self._orphans()])
        change.lost_channels.update(late.values())
        return change

    def _refuse_takeover(self, who: BrokerIdentity, data: BrokerData, channel: int, now_ms: int) -> None:
        occupant = data.broker_addrs.get(who.broker_id)
        if occupant is None or occupant == who.address:
            return
        live = self._tables.live.get(Place(data.cluster, occupant))
        if live is None or live.channel == channel or now_ms - live.heard_at_ms > live.expiry_ms:
            return
        raise BrokerIsAlive(
            f"broker {who.broker_name} with id {who.broker_id} is alive at {occupant} over another connection; {who.address} "
            "can take its place when that connection is closed, or was silent for too long"
        )

    def _is_outdated(self, who: BrokerIdentity, known: dict[int, str], version: DataVersion) -> bool:
        """Whether another address holds this broker id in a newer state: the one that registers was replaced."""
        occupant = known.get(who.broker_id)
        if occupant is None or occupant == who.address:
            return False
        live = self._tables.live.get(Place(who.cluster, occupant))
        return live is not None and live.version.state_version > version.state_version

    def _seat(self, who: BrokerIdentity, change: Change) -> bool:
        """Put the address under its broker id; True when that id was free."""
        tables = self._tables
        data = tables.join(who.cluster, who.broker_name)
        if data.enable_acting_master != bool(who.acting_master):
            data.enable_acting_master = not data.enable_acting_master
            change.topics.update(tables.topics_of(who.broker_name))
        data.zone_name = who.zone_name
        addresses = data.broker_addrs
        lowest_before = min(addresses, default=MASTER_ID)
        # A slave that becomes master keeps its address: it stands under one id only.
        for number in [
            n for n, address in addresses.items() if address == who.address and n != who.broker_id
        ]:
            tables.drop_address(data, number)
            change.topics.update(tables.topics_of(who.broker_name))
        occupant = addresses.get(who.broker_id)
        tables.put_address(data, who.broker_id, who.address)
        if occupant is not None and occupant != who.address:
            change.topics.update(tables.topics_of(who.broker_name))
        if who.broker_id < lowest_before:
            self._notice(data, None, who.ha_address, change)
        return occupant is None

    def _is_prime_slave(self, who: BrokerIdentity, data: BrokerData) -> bool:
        return who.acting_master is not None and who.broker_id == min(data.broker_addrs)

    def _take_topics(
        self,
        who: BrokerIdentity,
        topics: dict[str, TopicConfig],
        version: DataVersion,
        change: Change,
        *,
        is_new: bool,
    ) -> None:
        tables, name = self._tables, who.broker_name
        if self._switches.delete_topic_with_broker_registration:
            gone = [topic for topic in tables.topics_of(name) if topic not in topics]
            change.topics.update(topic for topic in gone if tables.drop_queues(topic, name))
        is_changed = is_new or self.version_of(who.place) != version
        is_read_only = who.broker_id != MASTER_ID and bool(who.acting_master)
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

    def _answer(self, who: BrokerIdentity, data: BrokerData, change: Change) -> Registration:
        master = data.broker_addrs.get(MASTER_ID)
        if who.broker_id == MASTER_ID or master is None:
            return Registration(change)
        live = self._tables.live.get(Place(who.cluster, master))
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
        """Return addresses that no living broker vouches for, such as those of a broker that left under another name."""
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
        """Go on with the brokers of the name that are left; without their master nothing is written to them."""
        lowest = min(data.broker_addrs)
        if data.enable_acting_master and lowest > MASTER_ID:
            for topic in self._tables.topics_of(data.broker_name):
                self._tables.topics[topic][data.broker_name].perm &= ~PERM_WRITE
        if lowest_before != lowest:
            self._notice(data, gone, ha_address, change)

    def _notice(self, data: BrokerData, offline: str | None, ha_address: str | None, change: Change) -> None:
        """Notify the other living members of a broker name; after a loss all of them, otherwise all but the newcomer."""
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


def _check_expiry(who: BrokerIdentity) -> None:
    asked = who.expiry_ms
    if asked is not None and not ASKED_EXPIRY_MS_MIN <= asked <= ASKED_EXPIRY_MS_MAX:
        raise RegisterRefused(
            f"heartbeatTimeoutMillis of broker {who.broker_name} is {asked}: it lies from {ASKED_EXPIRY_MS_MIN} to {ASKED_EXPIRY_MS_MAX}"
        )
