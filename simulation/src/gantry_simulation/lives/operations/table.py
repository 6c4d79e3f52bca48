"""The operations of all subjects by name, as plans name them."""

from __future__ import annotations

from gantry_simulation.lives.operations import (
    delays,
    locks,
    nameservers,
    offsets,
    ports,
    queries,
    reading,
    retaining,
    sends,
    topics,
    transactions,
)
from gantry_simulation.lives.operations.doing import Operation
from gantry_simulation.lives.operations.http.table import OPERATIONS as OVER_HTTP

OPERATIONS: dict[str, Operation] = {
    **sends.OPERATIONS,
    **reading.OPERATIONS,
    **offsets.OPERATIONS,
    **offsets.PULLS,
    **queries.OPERATIONS,
    **topics.OPERATIONS,
    **delays.SENDS,
    **delays.ORDERS,
    **transactions.SENDS,
    **transactions.ORDERS,
    **nameservers.OPERATIONS,
    **OVER_HTTP,
    **ports.OPERATIONS,
    **locks.OPERATIONS,
    **retaining.OPERATIONS,
}
SENDS = tuple(sends.OPERATIONS)
COMMON = (*reading.OPERATIONS, *offsets.OPERATIONS, *queries.OPERATIONS)
"""Operations of every system that are no sends."""
