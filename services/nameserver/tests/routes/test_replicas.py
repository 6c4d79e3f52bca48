"""A broker group with several replicas: the master's place follows the epoch of the registrations (`stateVersion`)."""

import itertools

import pytest
from registrations import CLUSTER, Core, broker_identity, holds

from nameserver.routes.registry import BrokerIsAlive, BrokerIsOutdated
from nameserver.routes.tables import EXPIRY_MS, Place

A, B, C = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
CHANNELS = {A: 1, B: 2, C: 3}


class Group:
    """Three replicas of one broker name; the others have the ids 1 and 2 in the order of their names."""

    def __init__(self, **switches):
        self.core = Core(**switches)

    def register(self, address, leader, epoch, *topics, channel=None, acting_master=None):
        others = [one for one in (A, B, C) if one != leader]
        number = 0 if address == leader else 1 + others.index(address)
        identity = broker_identity(number=number, address=address, acting_master=acting_master)
        body = holds(*(topics or ("T", "U")), state=epoch, version=epoch)
        return self.core.register(identity, body, CHANNELS[address] if channel is None else channel)

    def all(self, leader, epoch):
        for address in (A, B, C):
            self.register(address, leader, epoch)

    def addresses(self, topic="T"):
        route = self.core.views.route(topic)
        return None if route is None else route.broker_datas[0].broker_addrs


def test_a_later_epoch_takes_the_masters_place_while_the_old_one_is_connected():
    group = Group()
    group.all(A, 1)
    answer = group.register(C, C, 2)
    assert answer.change.topics == {"T", "U"}, "clients hear of it at once"
    assert group.addresses() == {0: C, 1: B}, "the new master left its old id, and the old master is gone"
    group.register(B, C, 2)
    group.register(A, C, 2)
    assert group.addresses() == {0: C, 1: A, 2: B}


@pytest.mark.parametrize("order", list(itertools.permutations((A, B, C))))
def test_replicas_of_a_later_epoch_register_in_any_order(order):
    group = Group()
    group.all(A, 1)
    for address in order:
        group.register(address, C, 2)
        assert group.addresses() is not None, "the topics stay in the route"
        assert len(set(group.addresses().values())) == len(group.addresses())
    assert group.addresses() == {0: C, 1: A, 2: B}


def test_a_slave_of_rocketmq_has_an_id_behind_those_of_the_followers_over_a_takeover():
    group, slave = Group(), "10.0.0.9:10911"
    group.all(A, 1)

    def register(number):
        return group.core.register(broker_identity(number=number, address=slave), holds("T", "U"), 9)

    with pytest.raises(BrokerIsAlive):
        register(1)
    assert register(3).master_address == A
    assert group.addresses() == {0: A, 1: B, 2: C, 3: slave}
    group.all(C, 2)
    assert register(3).master_address == C
    assert group.addresses() == {0: C, 1: A, 2: B, 3: slave}


def test_the_old_leader_that_wakes_up_is_refused_and_returns_as_a_slave():
    group = Group()
    group.all(A, 1)
    group.register(B, B, 2)
    with pytest.raises(BrokerIsAlive, match=r"alive at 10\.0\.0\.2:10911"):
        group.register(A, A, 1, "T", "U", "late")
    assert group.addresses()[0] == B
    assert group.addresses("late") is None
    group.core.registry.channel_closed(CHANNELS[A])  # its process ends
    group.register(A, B, 2, channel=11)
    assert group.addresses() == {0: B, 1: A, 2: C}


@pytest.mark.parametrize("how", ["closed", "silent"])
def test_the_old_leader_stays_refused_while_the_new_one_is_away(how):
    group = Group()
    group.all(A, 1)
    group.all(B, 2)
    if how == "closed":
        group.core.registry.channel_closed(CHANNELS[B])
    else:
        group.core.now_ms += EXPIRY_MS + 1
        group.register(C, B, 2)
        group.core.registry.expire(group.core.now_ms)
    assert 0 not in group.addresses()
    with pytest.raises(BrokerIsOutdated, match=r"of epoch 1; 10\.0\.0\.2:10911 led it in epoch 2"):
        group.register(A, A, 1, channel=11)
    assert 0 not in group.addresses()
    group.register(C, C, 3)
    assert group.addresses()[0] == C


def test_topics_stay_while_no_replica_leads_and_no_follower_changes_them():
    group = Group()
    group.all(A, 1)
    group.core.registry.channel_closed(CHANNELS[A])
    assert group.addresses() == {1: B, 2: C}
    group.register(B, A, 1, "old")
    assert group.addresses("old") is None
    group.register(B, B, 2)
    assert (group.addresses(), group.core.perms("T")) == ({0: B, 2: C}, {"broker-a": 6})


@pytest.mark.parametrize(("epoch", "queues"), [(1, 8), (2, 3)])
def test_an_acting_master_of_an_earlier_epoch_registers_no_topics(epoch, queues):
    core = Core()
    core.register(broker_identity(address=A), holds("T", "U", state=2), 1)
    slave = broker_identity(number=1, address=B, acting_master=False)
    core.register(slave, holds("T", "U", state=1), 2)
    core.registry.channel_closed(1)
    older = holds(state=epoch, version=7, T={"read_queue_nums": 3}, U={"read_queue_nums": 3})
    core.register(slave, older, 2)
    assert core.tables.topics["T"]["broker-a"].read_queue_nums == queues


def test_a_new_master_restores_permissions_that_its_absence_took():
    core = Core(support_acting_master=True)
    body = holds("T", "U", state=1)
    core.register(broker_identity(address=A, acting_master=True), body, 1)
    core.register(broker_identity(number=1, address=B, acting_master=True), body, 2)
    core.registry.channel_closed(1)
    assert core.perms("T") == {"broker-a": 4}
    core.register(broker_identity(address=B, acting_master=True), body, 2)
    assert core.perms("T") == {"broker-a": 6}


def test_an_epoch_is_no_key_to_the_place_of_a_broker_without_replicas():
    core = Core()
    core.register(broker_identity(address=A), holds("T", "U"), 1)
    with pytest.raises(BrokerIsAlive):
        core.register(broker_identity(address=B), holds("T", "U", state=9), 2)
    with pytest.raises(BrokerIsAlive):
        core.register(broker_identity(address=B), holds("T", "U"), 2)


def test_an_equal_epoch_takes_no_place():
    group = Group()
    group.all(A, 1)
    with pytest.raises(BrokerIsAlive):
        group.register(B, B, 1)
    assert group.addresses() == {0: A, 1: B, 2: C}


def test_a_name_whose_brokers_all_left_begins_at_any_epoch():
    group = Group()
    group.all(A, 5)
    for address, channel in CHANNELS.items():
        group.core.registry.channel_closed(channel)
        assert Place(CLUSTER, address) not in group.core.tables.live
    assert not group.core.tables.leaders
    group.register(B, B, 1, channel=11)
    assert group.addresses() == {0: B}
