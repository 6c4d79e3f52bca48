"""Two real stores that lead one broker name in turn. The test registers them, each over its own connection and with its epoch, as replicas do.

Each store has its own log: what a takeover does with the log is not the subject here, but what nameserver, gateway and clients do.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

from gantry_link.clients.nameservers import NameserverClient, Registered
from gantry_link.clients.store_admin import StoreAdminCalls
from gantry_link.connections.pool import ConnectionPool
from gantry_wire.bodies.cluster import DataVersion, RegisterBrokerBody, TopicConfigSerializeWrapper
from gantry_wire.headers.admin import CreateTopicHeader
from gantry_wire.headers.nameserver import RegisterBrokerHeader

from ..crash.store_process import StoreProcess, free_port_block  # noqa: TID252

CLUSTER = "DefaultCluster"
QUEUES = 2


@dataclass
class Replica:
    """A store, and the connection over which it registers."""

    store: StoreProcess
    nameserver: str
    pool: ConnectionPool = field(default_factory=ConnectionPool)
    is_stopped: bool = False

    @property
    def address(self) -> str:
        """The registered address."""
        return f"127.0.0.1:{self.store.port}"

    async def register(self, group: str, number: int, epoch: int) -> None:
        """Register its own topics with this broker id and epoch."""
        calls = StoreAdminCalls(self.pool, self.address)
        topics = (await calls.topics()).topic_config_table
        await self.register_topics(group, number, epoch, topics)

    async def register_topics(self, group: str, number: int, epoch: int, topics: dict) -> None:
        """Register these topics with this broker id and epoch."""
        header = RegisterBrokerHeader(
            broker_name=group,
            broker_addr=self.address,
            cluster_name=CLUSTER,
            ha_server_addr="",
            broker_id=number,
        )
        version = DataVersion(counter=1, state_version=epoch, timestamp=1)
        body = RegisterBrokerBody(
            topic_config_serialize_wrapper=TopicConfigSerializeWrapper(
                data_version=version, topic_config_table=topics
            )
        )
        answers = await NameserverClient(self.pool, self.nameserver).register_broker(header, body)
        assert all(isinstance(answer, Registered) for answer in answers.values()), answers

    async def create_topic(self, topic: str) -> None:
        """Create a topic in the store."""
        header = CreateTopicHeader(
            topic=topic, default_topic="", read_queue_nums=QUEUES, write_queue_nums=QUEUES, perm=6,
            topic_filter_type="SINGLE_TAG", topic_sys_flag=0,
        )  # fmt: skip
        await StoreAdminCalls(self.pool, self.address).create_topic(header)

    def pause(self) -> None:
        """Stop the process as a debugger does: it keeps its connections."""
        os.kill(self.store.pid, signal.SIGSTOP)
        self.is_stopped = True

    async def end(self) -> None:
        """End the process and its connections."""
        if self.is_stopped:
            os.kill(self.store.pid, signal.SIGCONT)
        self.store.kill()
        await self.pool.close()


def new_replica(directory: Path, group: str, name: str, nameserver: str) -> Replica:
    """Start a store of the group; it registers nowhere by itself."""
    store = StoreProcess(
        directory / name,
        port=free_port_block(),
        settings={
            "broker_name": group,
            "flush": "sync",
            "segment_bytes": str(1 << 20),
            "ballast_bytes": str(1 << 20),
        },
    )
    store.start()
    return Replica(store, nameserver)
