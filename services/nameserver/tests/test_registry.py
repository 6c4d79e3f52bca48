import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from registrations import CLUSTER, World, holds, who

from nameserver.registry import BrokerIsAlive, RegisterRefused
from nameserver.tables import BROKER_IDS_MAX, EXPIRY_MS, Place

MASTER, SLAVE = who(), who(number=1, address="10.0.0.2:10911")


def test_a_registered_broker_is_routed_to():
    world = World()
    assert world.register().change.topics == {"A", "B"}
    route = world.views.route("A")
    assert route.broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}
    assert (route.queue_datas[0].read_queue_nums, route.queue_datas[0].perm) == (8, 6)


def test_an_unchanged_register_changes_nothing_and_keeps_wiped_permissions():
    world = World()
    world.register()
    world.orders.wipe_write_perm("broker-a")
    assert world.register().change.topics == set()
    assert world.perms("A") == {"broker-a": 4}


def test_a_register_with_another_version_restores_wiped_permissions():
    world = World()
    world.register()
    world.orders.wipe_write_perm("broker-a")
    assert world.register(body=holds("A", "B", version=2)).change.topics == {"A", "B"}
    assert world.perms("A") == {"broker-a": 6}


def test_a_topic_deleted_here_comes_back_with_the_next_register_even_of_the_same_version():
    world = World()
    world.register()
    world.orders.delete("A", None)
    assert world.register().change.topics == {"A"}


def test_topics_a_register_does_not_name_stay_unless_the_switch_says_otherwise():
    world, strict = World(), World(delete_topic_with_broker_registration=True)
    for each in (world, strict):
        each.register()
        each.register(body=holds("B", "C", version=2))
    assert list(world.tables.topics) == ["A", "B", "C"]
    assert list(strict.tables.topics) == ["B", "C"]


def test_a_single_topic_of_an_unknown_broker_is_refused_and_leaves_no_trace():
    world = World()
    with pytest.raises(RegisterRefused, match="register broker failed"):
        world.register(body=holds("A"))
    assert not world.tables.brokers
    assert not world.tables.clusters
    assert not world.tables.live
    world.register()
    world.register(body=holds("A", version=2))  # known by now


def test_silence_expires_a_broker_and_closes_its_channel():
    world = World()
    world.register(channel=7)
    assert not world.registry.expire(world.now_ms + EXPIRY_MS).lost_channels
    change = world.registry.expire(world.now_ms + EXPIRY_MS + 1)
    assert change.lost_channels == {7}
    assert change.topics == {"A", "B"}
    assert world.views.route("A") is None
    assert not world.tables.clusters


def test_a_broker_sets_its_own_expiry():
    world = World()
    world.register(who(expiry_ms=500))
    assert not world.registry.expire(world.now_ms + 500).topics
    assert world.registry.expire(world.now_ms + 501).topics


@pytest.mark.parametrize("sign_of_life", ["register", "heartbeat"])
def test_signs_of_life_put_expiry_off(sign_of_life):
    world = World()
    world.register()
    world.now_ms += EXPIRY_MS
    if sign_of_life == "register":
        world.register()
    else:
        assert world.registry.heartbeat(who().place, world.now_ms)
    assert not world.registry.expire(world.now_ms + EXPIRY_MS).topics
    assert not world.registry.heartbeat(Place(CLUSTER, "unknown:1"), 1)


def test_a_closed_channel_removes_at_once_but_an_old_one_does_nothing():
    world = World()
    world.register(channel=1)
    world.register(channel=2)  # the broker has reconnected
    assert not world.registry.channel_closed(1).topics
    assert world.registry.channel_closed(2).topics == {"A", "B"}
    assert not world.tables.live


def test_all_brokers_of_one_channel_go_with_it():
    world = World()
    world.register(who("broker-a", address="h:1"), channel=1)
    world.register(who("broker-b", address="h:2"), channel=1)
    world.registry.channel_closed(1)
    assert not world.tables.brokers


def test_unregister_keeps_the_others_of_the_name_and_drops_the_name_with_the_last():
    world = World()
    world.register(MASTER)
    world.register(SLAVE, channel=2)
    assert world.registry.unregister(MASTER).topics == {"A", "B"}
    assert world.views.route("A").broker_datas[0].broker_addrs == {1: "10.0.0.2:10911"}
    world.registry.unregister(SLAVE)
    assert world.views.route("A") is None
    assert not world.tables.topics
    assert world.registry.unregister(SLAVE).topics == set()


def test_a_slave_is_told_its_master_and_brings_no_topics():
    world = World()
    assert world.register(SLAVE, holds("A", "B")).master_address is None
    assert not world.tables.topics
    world.register(MASTER)
    answer = world.register(SLAVE)
    assert (answer.master_address, answer.ha_address) == ("10.0.0.1:10911", "10.0.0.1:10912")
    assert world.register(MASTER).master_address is None


ELSEWHERE = who(address="10.0.0.9:10911")


def test_a_new_address_over_the_same_connection_replaces_the_old():
    world = World()
    world.register()
    assert world.register(ELSEWHERE).change.topics == {"A", "B"}
    assert world.views.route("A").broker_datas[0].broker_addrs == {0: "10.0.0.9:10911"}


def test_an_occupied_id_is_not_taken_by_an_older_state():
    world = World()
    world.register(body=holds("A", "B", state=5))
    world.register(ELSEWHERE, holds("A", "B", "C", state=4))
    assert world.views.route("A").broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}
    assert Place(CLUSTER, "10.0.0.9:10911") not in world.tables.live
    world.register(ELSEWHERE, holds("A", "B", "C", state=5))
    assert world.views.route("C").broker_datas[0].broker_addrs == {0: "10.0.0.9:10911"}


@pytest.mark.parametrize(
    "other",
    [
        ELSEWHERE,
        ELSEWHERE._replace(cluster="another"),
        ELSEWHERE._replace(expiry_ms=600_000),
        ELSEWHERE._replace(acting_master=True),
    ],
)
def test_the_place_of_a_broker_that_is_alive_is_not_taken_over_another_connection(other):
    world = World()
    world.register(channel=1)
    with pytest.raises(BrokerIsAlive, match=r"alive at 10\.0\.0\.1:10911"):
        world.register(other, holds("A", "B", "C", version=10**6, state=9), channel=2)
    assert world.views.route("A").broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}
    assert world.views.route("C") is None
    assert list(world.tables.live) == [MASTER.place]
    world.registry.channel_closed(2)
    assert world.views.route("A") is not None


@pytest.mark.parametrize("asked", [-(1 << 62), -1, 0, 499, 600_001, 1 << 62])
def test_a_broker_that_asks_for_a_time_out_of_bounds_is_told_the_bounds_and_changes_nothing(asked):
    world = World()
    with pytest.raises(RegisterRefused, match="lies from 500 to 600000"):
        world.register(MASTER._replace(expiry_ms=asked), holds("A", "B"))
    assert (world.tables.live, world.tables.brokers, world.tables.topics) == ({}, {}, {})


@pytest.mark.parametrize("how", ["closed", "silent", "left"])
def test_a_broker_that_comes_back_at_another_address_is_taken_in_when_the_old_one_is_gone(how):
    world = World()
    world.register(channel=1)
    if how == "closed":
        world.registry.channel_closed(1)
    elif how == "left":
        world.registry.leave(MASTER, 1)
    else:
        world.now_ms += EXPIRY_MS + 1
    world.register(ELSEWHERE, channel=2)
    assert world.views.route("A").broker_datas[0].broker_addrs == {0: "10.0.0.9:10911"}


def test_nobody_else_makes_a_living_broker_leave():
    world = World()
    world.register(channel=1)
    with pytest.raises(BrokerIsAlive, match="only it can leave"):
        world.registry.leave(MASTER, 2)
    world.registry.leave(ELSEWHERE, 2)  # who is not known has nothing to leave
    assert world.views.route("A").broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}
    assert world.registry.leave(MASTER, 1).topics == {"A", "B"}


def test_a_slave_that_becomes_master_stands_under_one_id_only():
    world = World()
    world.register(MASTER)
    world.register(SLAVE)
    world.registry.unregister(MASTER)
    world.register(SLAVE._replace(broker_id=0))
    assert world.views.route("A").broker_datas[0].broker_addrs == {0: "10.0.0.2:10911"}


def test_an_acting_master_brings_topics_without_write_permission():
    world = World(support_acting_master=True)
    world.register(SLAVE._replace(acting_master=True))
    assert world.perms("A") == {"broker-a": 4}
    assert world.views.route("A").broker_datas[0].broker_addrs == {0: "10.0.0.2:10911"}


def test_losing_the_master_of_an_acting_group_takes_write_permission():
    world = World(support_acting_master=True)
    world.register(MASTER._replace(acting_master=True))
    world.register(SLAVE._replace(acting_master=True), channel=2)
    world.registry.unregister(MASTER)
    assert world.perms("A") == {"broker-a": 4}
    assert world.views.route("A").broker_datas[0].broker_addrs == {0: "10.0.0.2:10911"}


def test_members_are_told_of_another_lowest_id_only_when_asked_for():
    quiet, world = World(), World(notify_min_broker_id_changed=True)
    for each in (quiet, world):
        each.register(MASTER)
        each.register(SLAVE, channel=2)
    assert not quiet.registry.unregister(MASTER).notices
    (notice,) = world.registry.unregister(MASTER).notices
    assert [member.address for member in notice.members] == ["10.0.0.2:10911"]
    assert (notice.min_id, notice.min_address) == (1, "10.0.0.2:10911")
    assert notice.offline_address == "10.0.0.1:10911"
    (notice,) = world.register(MASTER).change.notices
    assert (notice.min_id, notice.offline_address) == (0, None)
    assert [member.address for member in notice.members] == ["10.0.0.2:10911"]


def test_filter_servers_are_shown_with_the_route_until_they_leave():
    world = World()
    world.register(body=holds("A", "B", servers=["10.0.0.1:30000"]))
    assert world.views.route("A").filter_server_table == {"10.0.0.1:10911": ["10.0.0.1:30000"]}
    world.register()
    assert world.views.route("A").filter_server_table == {}


def test_a_renamed_broker_leaves_nothing_behind():
    world = World()
    world.register(who("old", address="h:1"))
    world.register(who("new", address="h:1"))
    world.registry.unregister(who("new", address="h:1"))
    assert world.registry.expire(world.now_ms).topics == {"A", "B"}
    assert not world.tables.brokers


NAMES, ADDRESSES, TOPICS = ("broker-a", "broker-b"), ("h:1", "h:2", "h:3"), ("A", "B", "C", "D")
identities = st.builds(
    who,
    st.sampled_from(NAMES),
    st.integers(0, 2),
    st.sampled_from(ADDRESSES),
    st.sampled_from([CLUSTER, "Other"]),
    acting_master=st.sampled_from([None, True, False]),
    expiry_ms=st.sampled_from([None, 1_000]),
)


class RegistryLife(RuleBasedStateMachine):
    """Any order of events keeps the tables consistent, and what changed is always said."""

    def __init__(self):
        super().__init__()
        self.world = World(support_acting_master=True, notify_min_broker_id_changed=True)
        self.before = self.routes()

    def check(self, change):
        after = self.routes()
        moved = {topic for topic in {*after, *self.before} if after.get(topic) != self.before.get(topic)}
        assert moved <= change.topics, "a route changed and nobody was told"
        self.before = after

    def routes(self):
        found = {topic: self.world.views.route(topic) for topic in TOPICS}
        for route in filter(None, found.values()):
            for data in route.broker_datas:  # shown to tools; no route changes with them
                data.enable_acting_master, data.zone_name = False, None
        return {topic: str(route) for topic, route in found.items()}

    @rule(
        identity=identities,
        topics=st.sets(st.sampled_from(TOPICS)),
        version=st.integers(0, 3),
        state=st.integers(0, 1),
        channel=st.integers(1, 4),
    )
    def register(self, identity, topics, version, state, channel):
        try:
            answer = self.world.register(identity, holds(*topics, version=version, state=state), channel)
        except RegisterRefused:
            return
        self.check(answer.change)

    @rule(identity=identities)
    def unregister(self, identity):
        self.check(self.world.registry.unregister(identity))

    @rule(channel=st.integers(1, 4))
    def close(self, channel):
        self.check(self.world.registry.channel_closed(channel))
        assert all(live.channel != channel for live in self.world.tables.live.values())

    @rule(passed_ms=st.sampled_from([10, 1_001, EXPIRY_MS + 1]))
    def expire(self, passed_ms):
        self.world.now_ms += passed_ms
        self.check(self.world.registry.expire(self.world.now_ms))
        for live in self.world.tables.live.values():
            assert self.world.now_ms - live.heard_at_ms <= live.expiry_ms
        living = {place.address for place in self.world.tables.live}
        for data in self.world.tables.brokers.values():
            assert set(data.broker_addrs.values()) <= living, "an address outlives its broker"

    @rule(topic=st.sampled_from(TOPICS), cluster=st.sampled_from([None, CLUSTER, "other"]))
    def delete(self, topic, cluster):
        self.check(self.world.orders.delete(topic, cluster))

    @rule(name=st.sampled_from(NAMES), wipe=st.booleans())
    def set_perm(self, name, wipe):
        orders = self.world.orders
        count, change = orders.wipe_write_perm(name) if wipe else orders.add_write_perm(name)
        assert count == len(self.world.tables.topics_of(name))
        self.check(change)

    @invariant()
    def tables_agree(self):
        tables = self.world.tables
        assert set(tables.brokers) == {name for names in tables.clusters.values() for name in names}
        for topic, queues in tables.topics.items():
            assert queues, f"{topic} has no queues"
            assert set(queues) <= set(tables.brokers)
        for name, data in tables.brokers.items():
            assert data.broker_addrs, f"{name} has no address"
            assert len(set(data.broker_addrs.values())) == len(data.broker_addrs)

    @invariant()
    def reverse_look_ups_agree_with_a_scan(self):
        tables = self.world.tables
        for name in NAMES:
            assert set(tables.topics_of(name)) == {t for t, queues in tables.topics.items() if name in queues}
        addresses = {address for data in tables.brokers.values() for address in data.broker_addrs.values()}
        for address in addresses | {"nowhere:1"}:
            at = {n for n, data in tables.brokers.items() if address in data.broker_addrs.values()}
            assert set(tables.names_at(address)) == at
        for channel in range(1, 6):
            heard = {place for place, live in tables.live.items() if live.channel == channel}
            assert set(tables.places_of(channel)) == heard


RegistryLife.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestRegistryLife = RegistryLife.TestCase


class CountingDict(dict):
    """Counts how often all of it is walked."""

    walks = 0

    def items(self):
        self.walks += 1
        return super().items()

    def values(self):
        self.walks += 1
        return super().values()


def test_a_closed_connection_of_many_brokers_walks_no_table_once_a_broker():
    world = World()
    tables = world.tables
    tables.topics, tables.brokers, tables.clusters = CountingDict(), CountingDict(), CountingDict()
    for n in range(50):
        world.register(who(f"broker-{n}", 0, f"10.0.0.1:{n}"), holds("A", f"T{n}"), 7)
    world.registry.channel_closed(7)
    assert not tables.brokers
    assert not tables.topics
    assert not tables.clusters
    assert tables.topics.walks + tables.brokers.walks + tables.clusters.walks == 0


def test_a_broker_name_has_a_most_of_broker_ids():
    world = World()
    for n in range(BROKER_IDS_MAX):
        world.register(who(number=n, address=f"10.0.0.1:{n}"))
    with pytest.raises(RegisterRefused, match="unregister one first"):
        world.register(who(number=BROKER_IDS_MAX, address="10.0.0.2:1"))
    world.register(who(number=5, address="10.0.0.2:1"))  # a known id may move
