"""Registries of clients: notices, subscriptions of groups, expiry."""

from memory_store import MemoryPeer

from broker_store.groups.clients import EXPIRY_MS, Client, ClientTable, Consumption
from gantry_wire.bodies.clients import MessageModel, SubscriptionData

CLUSTERING = Consumption()


def client(peer=None, client_id="c", at_ms=0):
    return Client(peer or MemoryPeer(), client_id, "JAVA", 479, 0, at_ms)


def wants(*topics, version=1):
    return [SubscriptionData(topic=topic, sub_version=version) for topic in topics]


def test_a_group_changes_when_a_client_or_a_topic_comes_or_goes_and_not_by_repetition():
    table, first = ClientTable(), client()
    assert table.register_consumer("g", first, CLUSTERING, wants("a"))
    assert not table.register_consumer("g", first, CLUSTERING, wants("a"))
    assert not table.register_consumer("g", first, CLUSTERING, wants("a", version=2))
    assert table.register_consumer("g", first, CLUSTERING, wants("a", "b"))
    assert table.register_consumer("g", first, CLUSTERING, wants("b"))
    assert table.register_consumer("g", client(), CLUSTERING, wants("b"))


def test_each_heartbeats_topics_replace_those_of_the_group():
    table = ClientTable()
    table.register_consumer("g", client(), CLUSTERING, wants("a", "b"))
    table.register_consumer("g", client(), CLUSTERING, wants("c"))
    assert list(table.consumers["g"].subscriptions) == ["c"]
    assert table.groups_on("c") == ["g"]
    assert table.groups_on("a") == []


def test_an_older_version_of_a_subscription_does_not_replace_a_newer_one():
    table = ClientTable()
    table.register_consumer("g", client(), CLUSTERING, wants("a", version=5))
    table.register_consumer("g", client(), CLUSTERING, wants("a", version=4))
    assert table.consumers["g"].subscriptions["a"].sub_version == 5


def test_a_heartbeat_without_subscriptions_leaves_them_alone():
    table, first = ClientTable(), client()
    table.register_consumer("g", first, CLUSTERING, wants("a"))
    assert not table.register_consumer("g", first, CLUSTERING, None)
    assert list(table.consumers["g"].subscriptions) == ["a"]


def test_an_id_that_a_connection_no_longer_has_is_forgotten():
    table, peer = ClientTable(), MemoryPeer()
    for number in range(3):
        table.register_producer("p", client(peer, f"c{number}"))
    table.register_producer("q", client(peer, "other"))
    assert [table.find_producer(f"c{number}") is not None for number in range(3)] == [False, False, True]
    table.close(peer.id)
    assert [table.find_producer(each) for each in ("c2", "other")] == [None, None]
    assert not table._id_groups


def test_an_id_stays_while_its_connection_has_it_in_another_group():
    table, peer = ClientTable(), MemoryPeer()
    for group in ("p", "q"):
        table.register_producer(group, client(peer, "c"))
    table.unregister(peer.id, "p", "")
    assert table.find_producer("c") is not None
    table.unregister(peer.id, "q", "")
    assert table.find_producer("c") is None


def test_a_closed_connection_leaves_all_its_groups():
    table, peer = ClientTable(), MemoryPeer()
    table.register_producer("p", client(peer))
    table.register_consumer("g", client(peer), CLUSTERING, wants("a"))
    table.register_consumer("h", client(peer), CLUSTERING, wants("a"))
    table.register_consumer("h", client(), CLUSTERING, wants("a"))
    assert table.close(peer.id) == ["g", "h"]
    assert (list(table.producers), list(table.consumers)) == ([], ["h"])
    assert table.close(peer.id) == []


def test_unregistering_leaves_only_the_groups_it_names():
    table, peer = ClientTable(), MemoryPeer()
    table.register_producer("p", client(peer))
    table.register_consumer("g", client(peer), CLUSTERING, wants("a"))
    assert not table.unregister(peer.id, "p", "")
    assert list(table.consumers) == ["g"]
    assert table.unregister(peer.id, "", "g")
    assert not table.unregister(peer.id, "p", "g")
    assert (table.producers, table.consumers) == ({}, {})


def test_silence_for_two_minutes_ends_a_client_and_its_connection():
    table = ClientTable()
    silent, alive, producer = client(at_ms=0), client(at_ms=1), client(at_ms=0)
    table.register_consumer("g", silent, CLUSTERING, wants("a"))
    table.register_consumer("g", alive, CLUSTERING, wants("a"))
    table.register_producer("p", producer)
    assert table.expire(EXPIRY_MS).peers == []
    gone = table.expire(EXPIRY_MS + 1)
    assert gone.changed_groups == ["g"]
    assert {peer.id for peer in gone.peers} == {silent.peer.id, producer.peer.id}
    assert list(table.consumers["g"].clients) == [alive.peer.id]
    assert table.producers == {}


def test_members_of_a_broadcasting_group_get_no_notice():
    table = ClientTable()
    table.register_consumer("g", client(), Consumption(model=MessageModel.BROADCASTING), wants("a"))
    table.register_consumer("h", client(), CLUSTERING, wants("a"))
    assert table.listeners("g") == []
    assert len(table.listeners("h")) == 1
    assert table.listeners("unknown") == []


def test_a_client_on_two_connections_is_one_id():
    table = ClientTable()
    table.register_consumer("g", client(client_id="c"), CLUSTERING, wants("a"))
    table.register_consumer("g", client(client_id="c"), CLUSTERING, wants("a"))
    entry = table.consumers["g"]
    assert entry.client_ids() == ["c"]
    assert entry.find("c") is not None
    assert entry.find("d") is None
