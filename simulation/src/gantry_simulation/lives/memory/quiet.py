"""The last quiet phase: clients and programs die, then everything but the stores. What was theirs must leave the memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gantry_simulation.lives.memory.census import Census
from gantry_simulation.lives.system import System
from gantry_simulation.processes.part import Part

LEFT_SECONDS = 1.0
"""Time from the last end of a process or connection to the count."""
SILENT_SECONDS = 150
"""Longer than a server keeps a connection without traffic: that of a peer that lost its power, or was cut off."""


def count_when_quiet(system: System, census: Census) -> None:
    """Let everybody die, and count. Only stores run afterwards."""
    clients = (*system.clients.values(), *system.programs.members.values())
    _kill(clients)
    system.programs.end_audit()
    system.world.run_for(LEFT_SECONDS)
    servers = {**system.gateways.workers, **system.nameservers}
    _wait_for_silent(system, lambda: _unaware(system, servers.values(), clients), "gateway or nameserver")
    census.check_empty(servers)
    _kill(each for name, each in system.members().items() if name not in system.stores)
    _wait_for_silent(system, lambda: census.connections(system.stores), "store")
    census.check_empty(system.stores)


def _wait_for_silent(system: System, connections: Callable[[], int], server: str) -> None:
    """Wait until the servers have closed the connections whose end did not reach them, and a moment longer."""
    if not system.world.run_until(lambda: not connections(), within=SILENT_SECONDS):
        system.world.violate(server, "keeps the connections of peers that are gone")
    system.world.run_for(LEFT_SECONDS)


def _unaware(system: System, servers: Iterable[Part], clients: Iterable[Part]) -> int:
    """Return how many connections of these clients the servers keep because no end of them arrived."""
    gone = {each.process.address for each in clients}
    hosts = sorted({each.process.address for each in servers})
    return sum(system.network.unaware(host, gone) for host in hosts)


def _kill(parts: Iterable[Part]) -> None:
    """Kill them, so that their peers notice it by themselves."""
    for part in parts:
        if part.process.is_running:
            part.kill()
