"""The simulated network: hosts, their listeners and connections, and what goes wrong between them.

A host runs on when its processes are killed: it answers with resets and refusals. A host without power answers nothing.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from gantry_simulation.network.conditions import Conditions
from gantry_simulation.network.endpoint import Address, Endpoint, pair
from gantry_simulation.network.paths import NETWORK, Paths
from gantry_simulation.world.world import SECOND_NS, World

FIRST_PORT, PORTS = 32_768, 28_232
"""Range of the ports that a kernel chooses."""
SYN_AGAIN_NS = SECOND_NS
"""A connection request that a full backlog dropped is repeated after this time."""
CONNECT_NS_MAX = 130 * SECOND_NS
"""Linux ends an unanswered connect after about this time."""

WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - compared only
"""Addresses to listen on that stand for each address of the host. `::` takes IPv4 too, as the product sets it."""
LOOPBACKS = ("127.0.0.1", "::1")

Connected = Callable[[Endpoint], None]
Failed = Callable[[OSError], None]


@dataclass(slots=True, eq=False)
class Listener:
    """A port that accepts. `arrived` is called for every new connection, which waits until it is accepted."""

    owner: object
    """The process, for `process_died`."""
    address: str
    """One of the host, a loopback address or a wildcard."""
    shares_port: bool
    backlog: int
    waiting: Callable[[], int]
    arrived: Callable[[Endpoint], None]

    def takes(self, address: str) -> bool:
        """Whether connections to this address of the host are for it."""
        return self.address in (address, "::") or (self.address in WILDCARDS and ":" not in address)

    def excludes(self, other: Listener) -> bool:
        """Whether both cannot have the same port."""
        overlaps = self.address == other.address or self.address in WILDCARDS or other.address in WILDCARDS
        return overlaps and not (self.shares_port and other.shares_port)


@dataclass(slots=True)
class Host:
    """One machine's ports and connections."""

    address: str
    has_power: bool = True
    listeners: dict[int, list[Listener]] = field(default_factory=dict[int, list[Listener]])
    refused_ports: dict[int, None] = field(default_factory=dict[int, None])
    endpoints: dict[int, Endpoint] = field(default_factory=dict[int, Endpoint])
    dead: list[Endpoint] = field(default_factory=list[Endpoint])
    next_port: int = 0


class Network:
    """Connects endpoints of hosts. Their addresses are any text without a colon, ports 1 to 65535."""

    def __init__(self, world: World, conditions: Conditions | None = None) -> None:
        self.paths = Paths(world, conditions or Conditions())
        self._world = world
        self._hosts: dict[str, Host] = {}
        self._next_endpoint = 0

    def add_host(self, address: str) -> Host:
        """Add a machine."""
        host = self._hosts[address] = Host(address, next_port=self.paths.rng.randrange(PORTS))
        return host

    def free_port(self, host: Host) -> int:
        """Return a port that no listener of the host has."""
        while True:
            port = FIRST_PORT + host.next_port
            host.next_port = (host.next_port + 1) % PORTS
            if port not in host.listeners:
                return port

    def listen(self, host: Host, port: int, listener: Listener) -> None:
        """Open a port. Raises OSError when it is in use."""
        others = host.listeners.setdefault(port, [])
        if any(listener.excludes(other) for other in others):
            raise OSError(errno.EADDRINUSE, "Address already in use")
        others.append(listener)

    def close_port(self, host: Host, port: int, listener: Listener) -> None:
        """Free the port of one listener. Without others, connections to it are refused from now on."""
        others = host.listeners.get(port, [])
        if listener in others:
            others.remove(listener)
        if not others:
            host.listeners.pop(port, None)

    def _listener(self, host: Host, target: Address) -> Listener | None:
        """Return the listener that gets a connection: the most exact address, and of several that share it any, as by a hash."""
        if target.port in host.refused_ports:
            return None
        found = [one for one in host.listeners.get(target.port, []) if one.takes(target.host)]
        exact = [one for one in found if one.address == target.host] or found
        return self.paths.rng.choice(exact) if len(exact) > 1 else next(iter(exact), None)

    def connect(
        self, source: Host, owner: object, target: Address, connected: Connected, failed: Failed
    ) -> None:
        """Ask for a connection. One of the functions is called once, outside of a turn; neither while no answer comes.

        `owner` is the process that asks.
        """
        is_loopback = target.host in LOOPBACKS
        local = Address(target.host if is_loopback else source.address, self.free_port(source))
        self._world.record(NETWORK, "syn", f"{local}>{target}")
        is_answered = False

        def fails(number: int) -> None:
            nonlocal is_answered
            if not is_answered:
                is_answered = True
                failed(OSError(number, f"Connect call failed ('{target.host}', {target.port})"))

        def answers(endpoint: Endpoint) -> None:
            nonlocal is_answered
            if not is_answered:
                is_answered = True
                connected(endpoint)

        there, back = (local.host, target.host), (target.host, local.host)

        def arrives() -> None:
            if is_answered:
                return
            host = source if is_loopback else self._hosts.get(target.host)
            if host is None or not host.has_power:
                return
            listener = self._listener(host, target)
            if listener is None:
                self.paths.carry(back, lambda: fails(errno.ECONNREFUSED))
            elif listener.waiting() >= listener.backlog:
                self.paths.carry_at(there, self._world.now_ns + SYN_AGAIN_NS, arrives)
            else:
                mine, other = pair(self._world, self.paths, local, target)
                mine.owner, other.owner = owner, listener.owner
                self._keep(source, mine)
                self._keep(host, other)
                listener.arrived(other)
                self.paths.carry(back, lambda: answers(mine))

        self.paths.carry(there, arrives)
        self._world.after(CONNECT_NS_MAX, lambda: fails(errno.ETIMEDOUT))

    # What goes wrong

    def cut(self, source: str, target: str, *, both: bool = True) -> None:
        """Partition two hosts: nothing passes from `source` to `target`, with `both` nor back."""
        self.paths.cut(source, target)
        if both:
            self.paths.cut(target, source)

    def heal(self, source: str, target: str) -> None:
        """End a partition in both directions."""
        self.paths.heal(source, target)
        self.paths.heal(target, source)

    def break_connections(self, source: str, target: str, *, half: bool = False) -> int:
        """Reset all connections between two hosts and return their number. With `half` only `source` notices at once."""
        host = self._hosts[source]
        broken = [one for one in self._open(host) if one.peer.local.host == target]
        for endpoint in broken:
            endpoint.reset()
            if not half:
                endpoint.peer.reset()
        return len(broken)

    def unaware(self, source: str, targets: Collection[str]) -> int:
        """Return how many connections `source` has with `targets` that ended there, while no end or reset of them arrived here."""
        return sum(
            (one.peer.is_gone or one.peer.is_reset) and not one.has_input
            for one in self._open(self._hosts[source])
            if one.peer.local.host in targets
        )

    def refuse(self, host: Host, port: int, *, refused: bool) -> None:
        """Refuse new connections to a port, or accept them again. A listener stays."""
        if refused:
            host.refused_ports[port] = None
        else:
            host.refused_ports.pop(port, None)

    def process_died(self, host: Host, owner: object) -> None:
        """Close everything of a killed process, as its kernel does: listeners at once, connections with a reset or an end."""
        for port, listeners in list(host.listeners.items()):
            for listener in [one for one in listeners if one.owner is owner]:
                self.close_port(host, port, listener)
        for endpoint in self._open(host):
            if endpoint.owner is not owner:
                continue
            is_reset = endpoint.inbox_bytes > 0 or self.paths.rng.random() < 0.5
            if not is_reset:
                endpoint.finish()
            endpoint.leave(reset=is_reset)

    def lose_power(self, host: Host) -> None:
        """Switch a machine off: no peer hears of it."""
        self._world.record(NETWORK, "power off", host.address)
        host.has_power = False
        host.listeners.clear()
        host.dead = self._open(host)
        for endpoint in host.dead:
            endpoint.lose_power()
        host.endpoints.clear()

    def power_on(self, host: Host) -> None:
        """Switch a machine on: it resets connections that it does not know."""
        host.has_power = True
        dead, host.dead = host.dead, []
        for endpoint in dead:
            endpoint.power_on()

    def _keep(self, host: Host, endpoint: Endpoint) -> None:
        self._next_endpoint += 1
        if self._next_endpoint % 64 == 0:
            host.endpoints = {number: kept for number, kept in host.endpoints.items() if not kept.is_gone}
        host.endpoints[self._next_endpoint] = endpoint

    def _open(self, host: Host) -> list[Endpoint]:
        return [endpoint for endpoint in host.endpoints.values() if not endpoint.is_gone]
