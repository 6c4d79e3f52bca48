"""The NATS servers of a system: one that keeps nothing, or for replicas a cluster of three with JetStream on disk. Pure.

Replicas keep their register in JetStream. Every write is synced (`sync_interval: always`): otherwise a power cut of all three could lose a
record that was acknowledged.
"""

from collections.abc import Sequence
from dataclasses import dataclass

LOOPBACK = "127.0.0.1"
NODES = 3
"""Servers of a cluster: it continues while two of them run."""
CLUSTER = "gantry"
ROUTE_USER = "gantry"
ROUTE_SECONDS_MAX = 10
"""The time in which a server of the cluster must show its password. The default of 1 s is short on a busy machine."""
MEMORY_BYTES_MAX = 64 * 1024 * 1024
FILE_BYTES_MAX = 1024 * 1024 * 1024
"""Registers need some kilobytes a group. The limits keep a client with the token from filling memory or disk."""


@dataclass(frozen=True)
class NatsNode:
    """One NATS server."""

    name: str
    host: str
    port: int
    route_port: int = 0
    """Where the other servers of its cluster connect; 0: there are none."""
    listen: str = LOOPBACK
    """The address that `route_port` listens on."""

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"nats://{self.host}:{self.port}"


def urls_of(nodes: Sequence[NatsNode], first: int = 0) -> str:
    """Return the setting `nats_url` of a service: all servers, from one of them on."""
    return ",".join(nodes[(first + at) % len(nodes)].url for at in range(len(nodes)))


def cluster_config(node: NatsNode, nodes: Sequence[NatsNode], folder: str, password: str) -> str:
    """Return the part of a server's configuration that makes it one of a cluster, with its JetStream in `folder`.

    A server of the cluster may do everything in all accounts, so the route ports need a password of their own.
    """
    routes = ", ".join(f'"nats://{ROUTE_USER}:{password}@{one.host}:{one.route_port}"' for one in nodes)
    return "\n".join([
        f"server_name: {node.name}",
        "jetstream {",
        f'  store_dir: "{folder}"',
        "  sync_interval: always",
        f"  max_memory_store: {MEMORY_BYTES_MAX}",
        f"  max_file_store: {FILE_BYTES_MAX}",
        "}",
        "cluster {",
        f"  name: {CLUSTER}",
        f'  listen: "{node.listen}:{node.route_port}"',
        f'  authorization {{ user: {ROUTE_USER}, password: "{password}", timeout: {ROUTE_SECONDS_MAX} }}',
        f"  routes: [{routes}]",
        "}",
        "",
    ])  # fmt: skip
