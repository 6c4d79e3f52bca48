"""A server keeps its connections and tasks in the order in which they came."""

from uvicorn import Config, Server

from gantry_chassis.http.in_order import InOrder, keep_order


def test_items_stay_in_the_order_of_their_insertion():
    items = InOrder[object]()
    added = [object() for _ in range(100)]
    for item in added:
        items.add(item)
        items.add(item)
    items.discard(added[3])
    items.discard(added[3])
    assert list(items) == added[:3] + added[4:]
    assert (len(items), added[3] in items, added[4] in items) == (99, False, True)


def test_a_servers_connections_and_tasks_are_in_order():
    server = Server(Config(lambda: None))
    keep_order(server)
    assert isinstance(server.server_state.connections, InOrder)
    assert isinstance(server.server_state.tasks, InOrder)
