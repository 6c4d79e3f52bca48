"""A life as data: the shape of the system, and a list of acts with their times. Whatever is in a plan can be replayed and shrunk."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec


def store_name(number: int) -> str:
    """Return the name of a store of the plan."""
    return f"store-{number}"


def client_name(number: int) -> str:
    """Return the name of a client of the plan."""
    return f"client-{number}"


class StoreShape(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one store for its first start."""

    flush: Literal["sync", "async"] = "sync"
    index: bool = True
    fast_paths: bool = True
    checkpoint_seconds: float = 5.0
    zero_ahead_bytes: int = 128 << 10
    """With 0, a full disk is met by the write of a message, not only by that of the next segment."""
    has_slow_disk: bool = False
    """Syncs and other calls in threads stall often."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What the system consists of."""

    stores: tuple[StoreShape, ...]
    clients: int = 1
    topics: int = 1
    queues: int = 1
    has_nameserver: bool = False
    has_rough_network: bool = False
    """Connections break by themselves."""
    ends_with_power_cut: bool = False
    """All stores lose their power before the last reading: what is not durable by then was not durable."""


class Act(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation of a client, or one fault. `kind` is a name in OPERATIONS or FAULTS; the fields mean what the kind says."""

    at_ms: int
    kind: str
    on: str
    """The process that it happens to: a store for operations."""
    by: str = ""
    """The client of an operation; the other host of a network fault."""
    number: int = 0
    """Of a message: unique in the plan. Of a fault: a seed."""
    topic: int = 0
    queue: int = 0
    size: int = 0
    span_ms: int = 0
    """How long a fault lasts."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One life. The seed decides what the acts leave open: latencies, the order of events, what a power cut leaves."""

    seed: int
    seconds: float
    """Virtual time until all faults end."""
    shape: Shape
    acts: tuple[Act, ...]

    def with_acts(self, acts: list[Act]) -> Plan:
        """Return this plan with other acts."""
        return msgspec.structs.replace(self, acts=tuple(acts))


def save(plan: Plan, path: Path) -> None:
    """Write a plan as JSON. Raises OSError."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n")


def load(path: Path) -> Plan:
    """Read a plan. Raises OSError, or msgspec.ValidationError with the field that is wrong."""
    return msgspec.json.decode(path.read_bytes(), type=Plan)
