"""What follows when the stores of replicated brokers are ready: their registers are made, and somebody leads."""

from typing import Any

from gantry_launcher.errors import Refused
from gantry_launcher.layout import DataDir
from gantry_launcher.output.service_log import Output
from gantry_launcher.planning.plan import SystemPlan
from gantry_launcher.planning.replicas import Replication
from gantry_launcher.planning.roles import add_roles, view_of
from gantry_launcher.serving.replica_record import record, with_registers

ANSWER_SECONDS_MAX = 0.3
"""Processes that are ready answer in milliseconds, and the supervisor waits meanwhile."""


class Replicas:
    """The replicas of one start; without replication there is nothing to do."""

    def __init__(self, data: DataDir, plan: SystemPlan, replication: Replication, output: Output) -> None:
        self._data, self._replication, self._output = data, replication, output
        self._stores = [store for store in plan.stores if store.replica]

    def note_ready(self, state: dict[str, Any]) -> None:
        """Add to the state of a system who leads, and note that no later start may make the registers.

        Where that cannot be noted, the next start lets a store make one that does not exist; the store refuses to make one that did.
        """
        if not self._stores:
            return
        views = {store.process: view_of(store.check, ANSWER_SECONDS_MAX) for store in self._stores}
        add_roles(state["brokers"], views)
        made = with_registers(self._replication, (store.broker for store in self._stores))
        try:
            if made != self._replication:
                record(self._data, made)
        except (Refused, OSError) as error:
            self._output.line("gantry", f"cannot note that the registers are made: {error}")
