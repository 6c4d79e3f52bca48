import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from registrations import CLUSTER, Core, broker_identity, holds

from nameserver.routes.registry import BrokerIsAlive, RegisterRefused
from nameserver.routes.tables import BROKER_IDS_MAX, EXPIRY_MS, Place

MASTER, SLAVE = broker_identity(), broker_identity(number=1, address="10.0.0.2:10911")


def test_a_registered_broker_has_a_route():
    core = Core()
    assert core.register().change.topics == {"A", "B"}
    route = core.views.route("A")
    assert route.broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}
    assert (route.queue_datas[0].read_queue_nums, route.queue_datas[0].perm) == (8, 6)


def test_an_unchanged_register_changes_nothing_and_keeps_wiped_permissions():
    core = Core()
    core.register()
    core.orders.wipe_write_perm("broker-a")
    assert core.register().change.topics == set()
    assert core.perms("A") == {"broker-a": 4}


def test_a_register_with_another_version_restores_wiped_permissions():
    core = Core()
    core.register()
    core.orders.wipe_write_perm("broker-a")
    assert core.register(body=holds("A", "B", version=2)).change.topics == {"A", "B"}
    assert core.perms("A") == {"broker-a": 6}


def test_a_deleted_topic_returns_with_the_next_register_even_with_the_same_version():
    core = Core()
    core.register()
    core.orders.delete("A", None)
    assert core.register().change.topics == {"A"}


def test_topics_missing_from_a_register_stay_unless_the_switch_removes_them():
    core, strict = Core(), Core(delete_topic_with_broker_registration=True)
    for each in (core, strict):
        each.register()
        each.register(body=holds("B", "C", version=2))
    assert list(core.tables.topics) == ["A", "B", "C"]
    assert list(strict.tables.topics) == ["B", "C"]


def test_a_single_topic_of_an_unknown_broker_is_refused_and_leaves_no_trace():
    core = Core()
    with pytest.raises(RegisterRefused, match="register broker failed"):
        core.register(body=holds("A"))
    assert not core.tables.brokers
    assert not core.tables.clusters
    assert not core.tables.live
    core.register()
    core.register(body=holds("A", version=2))  # known by now


def test_silence_expires_a_broker_and_closes_its_channel():
    core = Core()
    core.register(channel=7)
    assert not core.registry.expire(core.now_ms + EXPIRY_MS).lost_channels
    change = core.registry.expire(core.now_ms + EXPIRY_MS + 1)
    assert change.lost_channels == {7}
    assert change.topics == {"A", "B"}
    assert core.views.route("A") is None
    assert not core.tables.clusters


def test_a_broker_sets_its_own_expiry():
    core = Core()
    core.register(broker_identity(expiry_ms=500))
    assert not core.registry.expire(core.now_ms + 500).topics
    assert core.registry.expire(core.now_ms + 501).topics


@pytest.mark.parametrize("sign_of_life", ["register", "heartbeat"])
def test_signs_of_life_delay_expiry(sign_of_life):
    core = Core()
    core.register()
    core.now_ms += EXPIRY_MS
    if sign_of_life == "register":
        core.register()
    else:
        assert core.registry.heartbeat(broker_identity().place, core.now_ms)
    assert not core.registry.expire(core.now_ms + EXPIRY_MS).topics
    assert not core.registry.heartbeat(Place(CLUSTER, "unknown:1"), 1)


def test_a_closed_channel_removes_its_broker_at_once_and_an_old_one_none():
    core = Core()
    core.register(channel=1)
    core.register(channel=2)  # the broker has reconnected
    assert not core.registry.channel_closed(1).topics
    assert core.registry.channel_closed(2).topics == {"A", "B"}
    assert not core.tables.live


def test_all_brokers_of_a_channel_leave_with_it():
    core = Core()
    core.register(broker_identity("broker-a", address="h:1"), channel=1)
    core.register(broker_identity("broker-b", address="h:2"), channel=1)
    core.registry.channel_closed(1)
    assert not core.tables.brokers


def test_unregister_keeps_the_other_brokers_and_drops_the_name_with_the_last():
    core = Core()
    core.register(MASTER)
    core.register(SLAVE, channel=2)
    assert core.registry.unregister(MASTER).topics == {"A", "B"}
    assert core.views.route("A").broker_datas[0].broker_addrs == {1: "10.0.0.2:10911"}
    core.registry.unregister(SLAVE)
    assert core.views.route("A") is None
    assert not core.tables.topics
    assert core.registry.unregister(SLAVE).topics == set()


def test_a_slave_gets_the_address_of_its_master_and_adds_no_topics():
    core = Core()
    assert core.register(SLAVE, holds("A", "B")).master_address is None
    assert not core.tables.topics
    core.register(MASTER)
    answer = core.register(SLAVE)
    assert (answer.master_address, answer.ha_address) == ("10.0.0.1:10911", "10.0.0.1:10912")
    assert core.register(MASTER).master_address is None


ELSEWHERE = broker_identity(address="10.0.0.9:10911")


def test_a_new_address_over_the_same_connection_replaces_the_old():
    core = Core()
    core.register()
    assert core.register(ELSEWHERE).change.topics == {"A", "B"}
    assert core.views.route("A").broker_datas[0].broker_addrs == {0: "10.0.0.9:10911"}


def test_an_older_state_does_not_take_an_occupied_id():
    core = Core()
    core.register(body=holds("A", "B", state=5))
    core.register(ELSEWHERE, holds("A", "B", "C", state=4))
    assert core.views.route("A").broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}
    assert Place(CLUSTER, "10.0.0.9:10911") not in core.tables.live
    core.register(ELSEWHERE, holds("A", "B", "C", state=5))
    assert core.views.route("C").broker_datas[0].broker_addrs == {0: "10.0.0.9:10911"}


@pytest.mark.parametrize(
    "other",
    [
        ELSEWHERE,
        ELSEWHERE._replace(cluster="another"),
        ELSEWHERE._replace(expiry_ms=600_000),
        ELSEWHERE._replace(acting_master=True),
    ],
)
def test_another_connection_does_not_take_the_place_of_a_living_broker(other):
    core = Core()
    core.register(channel=1)
    with pytest.raises(BrokerIsAlive, match=r"alive at 10\.0\.0\.1:10911"):
        core.register(other, holds("A", "B", "C", version=10**6, state=9), channel=2)
    assert core.views.route("A").broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}
    assert core.views.route("C") is None
    assert list(core.tables.live) == [MASTER.place]
    core.registry.channel_closed(2)
    assert core.views.route("A") is not None


@pytest.mark.parametrize("requested", [-(1 << 62), -1, 0, 499, 600_001, 1 << 62])
def test_an_expiry_out_of_bounds_is_refused_with_the_bounds_and_changes_nothing(requested):
    core = Core()
    with pytest.raises(RegisterRefused, match="must be 500 to 600000"):
        core.register(MASTER._replace(expiry_ms=requested), holds("A", "B"))
    assert (core.tables.live, core.tables.brokers, core.tables.topics) == ({}, {}, {})


@pytest.mark.parametrize("how", ["closed", "silent", "left"])
def test_a_broker_at_a_new_address_registers_once_its_old_one_is_gone(how):
    core = Core()
    core.register(channel=1)
    if how == "closed":
        core.registry.channel_closed(1)
    elif how == "left":
        core.registry.leave(MASTER, 1)
    else:
        core.now_ms += EXPIRY_MS + 1
    core.register(ELSEWHERE, channel=2)
    assert core.views.route("A").broker_datas[0].broker_addrs == {0: "10.0.0.9:10911"}


def test_only_a_living_broker_itself_can_unregister():
    core = Core()
    core.register(channel=1)
    with pytest.raises(BrokerIsAlive, match="only that one can unregister it"):
        core.registry.leave(MASTER, 2)
    core.registry.leave(ELSEWHERE, 2)  # an unknown broker has nothing to remove
    assert core.views.route("A").broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}
    assert core.registry.leave(MASTER, 1).topics == {"A", "B"}


@pytest.mark.parametrize(("number", "address"), [(0, MASTER.address), (1, "10.0.0.9:10911")])
def test_another_cluster_neither_changes_nor_removes_a_living_broker(number, address):
    core = Core()
    core.register(channel=1)
    forged = MASTER._replace(cluster="another", broker_id=number, address=address)
    with pytest.raises(BrokerIsAlive, match=r"of the cluster DefaultCluster is alive at 10\.0\.0\.1:10911"):
        core.register(forged, holds("A", "B", "C", version=10**6), channel=2)
    with pytest.raises(BrokerIsAlive, match="only that one can unregister it"):
        core.registry.leave(MASTER._replace(cluster="another"), 2)
    assert core.views.route("A").broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}
    assert core.views.route("C") is None
    assert list(core.tables.clusters) == ["DefaultCluster"]


def test_a_slave_that_becomes_master_has_only_its_new_id():
    core = Core()
    core.register(MASTER)
    core.register(SLAVE)
    core.registry.unregister(MASTER)
    core.register(SLAVE._replace(broker_id=0))
    assert core.views.route("A").broker_datas[0].broker_addrs == {0: "10.0.0.2:10911"}


def test_an_acting_master_adds_topics_without_write_permission():
    core = Core(support_acting_master=True)
    core.register(SLAVE._replace(acting_master=True))
    assert core.perms("A") == {"broker-a": 4}
    assert core.views.route("A").broker_datas[0].broker_addrs == {0: "10.0.0.2:10911"}


def test_losing_the_master_of_an_acting_group_removes_write_permission():
    core = Core(support_acting_master=True)
    core.register(MASTER._replace(acting_master=True))
    core.register(SLAVE._replace(acting_master=True), channel=2)
    core.registry.unregister(MASTER)
    assert core.perms("A") == {"broker-a": 4}
    assert core.views.route("A").broker_datas[0].broker_addrs == {0: "10.0.0.2:10911"}


def test_members_are_notified_of_a_new_lowest_id_only_when_switched_on():
    quiet, core = Core(), Core(notify_min_broker_id_changed=True)
    for each in (quiet, core):
        each.register(MASTER)
        each.register(SLAVE, channel=2)
    assert not quiet.registry.unregister(MASTER).notices
    (notice,) = core.registry.unregister(MASTER).notices
    assert [member.address for member in notice.members] == ["10.0.0.2:10911"]
    assert (notice.min_id, notice.min_address) == (1, "10.0.0.2:10911")
    assert notice.offline_address == "10.0.0.1:10911"
    (notice,) = core.register(MASTER).change.notices
    assert (notice.min_id, notice.offline_address) == (0, None)
    assert [member.address for member in notice.members] == ["10.0.0.2:10911"]


def test_filter_servers_are_in_the_route_until_they_leave():
    core = Core()
    core.register(body=holds("A", "B", servers=["10.0.0.1:30000"]))
    assert core.views.route("A").filter_server_table == {"10.0.0.1:10911": ["10.0.0.1:30000"]}
    core.register()
    assert core.views.route("A").filter_server_table == {}


def test_a_renamed_broker_leaves_nothing_behind():
    core = Core()
    core.register(broker_identity("old", address="h:1"))
    core.register(broker_identity("new", address="h:1"))
    core.registry.unregister(broker_identity("new", address="h:1"))
    assert core.registry.expire(core.now_ms).topics == {"A", "B"}
    assert not core.tables.brokers


NAMES, ADDRESSES, TOPICS = ("broker-a", "broker-b"), ("h:1", "h:2", "h:3"), ("A", "B", "C", "D")
identities = st.builds(
    broker_identity,
    st.sampled_from(NAMES),
    st.integers(0, 2),
    st.sampled_from(ADDRESSES),
    st.sampled_from([CLUSTER, "Other"]),
    acting_master=st.sampled_from([None, True, False]),
    expiry_ms=st.sampled_from([None, 1_000]),
)


class RegistryLife(RuleBasedStateMachine):
    """Any order of events keeps the tables consistent and reports every change."""

    def __init__(self):
        super().__init__()
        self.core = Core(support_acting_master=True, notify_min_broker_id_changed=True)
        self.before = self.routes()

    def check(self, change):
        after = self.routes()
        moved = {topic for topic in {*after, *self.before} if after.get(topic) != self.before.get(topic)}
        assert moved <= change.topics, "a route change was not reported"
        self.before = after

    def routes(self):
        found = {topic: self.core.views.route(topic) for topic in TOPICS}
        for route in filter(None, found.values()):
            for data in route.broker_datas:  # shown to tools; changes no route
                data.enable_acting_master, data.zone_name = False, None
        return {topic: str(route) for topic, route in found.items()}

    @rule(
        identity=identities,
        topics=st.sets(st.sampled_from(TOPICS)),
        version=st.integers(0, 3),
        state=st.integers(0, 3),
        channel=st.integers(1, 4),
    )
    def register(self, identity, topics, version, state, channel):
        try:
            answer = self.core.register(identity, holds(*topics, version=version, state=state), channel)
        except RegisterRefused:
            return
        self.check(answer.change)

    @rule(identity=identities)
    def unregister(self, identity):
        self.check(self.core.registry.unregister(identity))

    @rule(channel=st.integers(1, 4))
    def close(self, channel):
        self.check(self.core.registry.channel_closed(channel))
        assert all(live.channel != channel for live in self.core.tables.live.values())

    @rule(passed_ms=st.sampled_from([10, 1_001, EXPIRY_MS + 1]))
    def expire(self, passed_ms):
        self.core.now_ms += passed_ms
        self.check(self.core.registry.expire(self.core.now_ms))
        for live in self.core.tables.live.values():
            assert self.core.now_ms - live.heard_at_ms <= live.expiry_ms
        living = {place.address for place in self.core.tables.live}
        for data in self.core.tables.brokers.values():
            assert set(data.broker_addrs.values()) <= living, "an address outlives its broker"

    @rule(topic=st.sampled_from(TOPICS), cluster=st.sampled_from([None, CLUSTER, "other"]))
    def delete(self, topic, cluster):
        self.check(self.core.orders.delete(topic, cluster))

    @rule(name=st.sampled_from(NAMES), wipe=st.booleans())
    def set_perm(self, name, wipe):
        orders = self.core.orders
        count, change = orders.wipe_write_perm(name) if wipe else orders.add_write_perm(name)
        assert count == len(self.core.tables.topics_of(name))
        self.check(change)

    @invariant()
    def tables_agree(self):
        tables = self.core.tables
        assert set(tables.brokers) == {name for names in tables.clusters.values() for name in names}
        assert set(tables.leaders) <= set(tables.brokers)
        for topic, queues in tables.topics.items():
            assert queues, f"{topic} has no queues"
            assert set(queues) <= set(tables.brokers)
        for name, data in tables.brokers.items():
            assert data.broker_addrs, f"{name} has no address"
            assert len(set(data.broker_addrs.values())) == len(data.broker_addrs)

    @invariant()
    def reverse_look_ups_agree_with_a_scan(self):
        tables = self.core.tables
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
    """Counts full iterations."""

    walks = 0

    def items(self):
        self.walks += 1
        return super().items()

    def values(self):
        self.walks += 1
        return super().values()


def test_closing_a_connection_with_many_brokers_iterates_no_table_per_broker():
    core = Core()
    tables = core.tables
    tables.topics, tables.brokers, tables.clusters = CountingDict(), CountingDict(), CountingDict()
    for n in range(50):
        core.register(broker_identity(f"broker-{n}", 0, f"10.0.0.1:{n}"), holds("A", f"T{n}"), 7)
    core.registry.channel_closed(7)
    assert not tables.brokers
    assert not tables.topics
    assert not tables.clusters
    assert tables.topics.walks + tables.brokers.walks + tables.clusters.walks == 0


def test_broker_ids_of_one_name_are_bounded():
    core = Core()
    for n in range(BROKER_IDS_MAX):
        core.register(broker_identity(number=n, address=f"10.0.0.1:{n}"))
    with pytest.raises(RegisterRefused, match="unregister one first"):
        core.register(broker_identity(number=BROKER_IDS_MAX, address="10.0.0.2:1"))
    core.register(broker_identity(number=5, address="10.0.0.2:1"))  # a known id may move
