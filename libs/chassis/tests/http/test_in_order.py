"""A server keeps its connections and tasks in the order in which they came."""

import asyncio

from uvicorn import Config, Server

from gantry_chassis.http.in_order import Connections, InOrder, keep_order, shut_down


class Connection:
    """A connection that knows whether it was shut down."""

    is_shut_down = False

    def shutdown(self) -> None:
        self.is_shut_down = True


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


def test_a_connection_that_comes_after_its_server_began_to_shut_down_is_shut_down() -> None:
    early, late = Connection(), Connection()

    async def scenario() -> None:
        config = Config(lambda: None, lifespan="off")
        config.load()
        server = Server(config)
        server.lifespan = config.lifespan_class(config)
        server.servers = []
        keep_order(server)
        connections = server.server_state.connections
        assert isinstance(connections, Connections)
        connections.add(early)
        await asyncio.sleep(0)
        assert not early.is_shut_down
        ending = asyncio.create_task(shut_down(server, []))
        await asyncio.sleep(0)
        assert early.is_shut_down
        connections.add(late)
        assert not late.is_shut_down, "it has no transport yet"
        await asyncio.sleep(0)
        assert late.is_shut_down
        connections.discard(early)
        connections.discard(late)
        await ending

    asyncio.run(scenario())
