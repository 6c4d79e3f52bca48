"""The operations over HTTP by name, as plans name them."""

from __future__ import annotations

from gantry_simulation.lives.operations.doing import Operation
from gantry_simulation.lives.operations.http import leases, reading, schedules, sends, tasks, transactions

SENDS: dict[str, Operation] = {**sends.SENDS, **transactions.SENDS}
OPERATIONS: dict[str, Operation] = {
    **SENDS,
    **leases.RECEIVES,
    **reading.OPERATIONS,
    **schedules.ORDERS,
    **schedules.LISTS,
    **tasks.OPERATIONS,
    **transactions.CHECKED,
}
