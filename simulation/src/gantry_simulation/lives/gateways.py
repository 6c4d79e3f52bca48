"""The gateways of a life, with NATS and Valkey if it has them: workers of one machine, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gantry_simulation.fakes.servers import Nats, Valkey
from gantry_simulation.lives.plan import GATEWAY, NATS, VALKEY, Shape, names
from gantry_simulation.parts.gateway import Gateway
from gantry_simulation.processes.part import Part
from gantry_simulation.processes.process import Process

CLIENT_MESSAGES_PER_SECOND = 20
"""Rate limit of each client, where there is a Valkey."""
SETTINGS: dict[str, Any] = {
    "request_timeout_ms": 2000,
    "route_poll_seconds": 5.0,
    "takeover_seconds": 1.0,
    "drain_seconds": 5,
    "auto_create_topic": True,
    "auto_create_queues": 4,
}
"""Shorter than the product's, so that short lives see what follows them."""

MakeProcess = Callable[[str], Process]


class Gateways:
    """Members by name."""

    def __init__(self, shape: Shape, make: MakeProcess) -> None:
        """`make` returns a process on a machine of its own."""
        self._shape, self._make = shape, make
        self.nats = Nats(make(NATS)) if shape.nats else None
        self.valkey = Valkey(make(VALKEY)) if shape.valkey else None
        self.workers: dict[str, Gateway] = {}

    @property
    def hints(self) -> dict[str, str]:
        """The settings of every process that sends or receives hints."""
        return {"nats_url": self.nats.url} if self.nats is not None else {}

    @property
    def address(self) -> str:
        """Where clients find the gateways; empty if there are none."""
        return next((one.address for one in self.workers.values()), "")

    def add_workers(self, nameservers: str, make_beside: Callable[[str, Process], Process]) -> None:
        """Add the workers. `make_beside` returns a process on the machine of another one."""
        limits: dict[str, Any] = {}
        if self.valkey is not None:
            limits = {"redis_url": self.valkey.url, "client_messages_per_second": CLIENT_MESSAGES_PER_SECOND}
        first: Process | None = None
        for number, name in enumerate(names(GATEWAY, self._shape.gateways)):
            process = self._make(name) if first is None else make_beside(name, first)
            first = first or process
            self.workers[name] = Gateway(
                process, nameservers, worker=number, workers=self._shape.gateways, fast_paths=number == 0,
                **SETTINGS, **limits, **self.hints,
            )  # fmt: skip

    @property
    def members(self) -> dict[str, Part]:
        """Everything here by name."""
        servers = {NATS: self.nats, VALKEY: self.valkey}
        return {**{name: one for name, one in servers.items() if one is not None}, **self.workers}
