"""What follows when the stores of replicated brokers are ready: their registers are made, somebody leads, and all are in sync."""

from collections.abc import Callable
from typing import Any

from gantry_launcher.errors import Refused
from gantry_launcher.layout import DataDir
from gantry_launcher.output.service_log import Output
from gantry_launcher.planning.groups import obstacles, read_member
from gantry_launcher.planning.health import fetch
from gantry_launcher.planning.replicas import Replication
from gantry_launcher.planning.roles import PATH, add_roles, view_of
from gantry_launcher.planning.system_plan import StorePlan, SystemPlan
from gantry_launcher.serving.replica_record import record, with_registers

ANSWER_SECONDS_MAX = 0.3
"""Processes that are ready answer in milliseconds, and the supervisor waits meanwhile."""
LOOK_SECONDS = 0.1
IN_SYNC_SECONDS_MAX = 10.0
"""A replica that copies much needs longer, and a system works without it."""


class Settling:
    """Waits, for a bounded time, until the replicas of a start are in sync."""

    def __init__(self, plan: SystemPlan, output: Output, say: Callable[[str], None]) -> None:
        self._output, self._say = output, say
        self._groups: dict[str, list[StorePlan]] = {}
        for store in plan.stores:
            if store.replica:
                self._groups.setdefault(store.broker, []).append(store)
        self._until: float | None = None
        self._next_look = 0.0

    def is_over(self, now: float) -> bool:
        """Whether all are in sync, or the time is over, which is said. Asks nobody more often than each LOOK_SECONDS."""
        if now < self._next_look:
            return False
        self._until = self._until or now + IN_SYNC_SECONDS_MAX
        self._next_look = now + LOOK_SECONDS
        missing = {broker: words for broker in self._groups if (words := self._missing(broker))}
        if missing and now < self._until:
            return False
        for broker, words in missing.items():
            message = f"{broker} is ready, though not all of its replicas are in sync: {words}"
            self._output.line("gantry", message)
            self._say(message)
        return True

    def _missing(self, broker: str) -> str:
        said = {
            store.replica: read_member(fetch(store.check, PATH, ANSWER_SECONDS_MAX))
            for store in self._groups[broker]
        }
        found = obstacles(said, with_unknown=True)
        return ", ".join(f"{name} ({words})" if name else words for name, words in found.items())


def note_ready(
    data: DataDir, plan: SystemPlan, replication: Replication, output: Output, state: dict[str, Any]
) -> Replication:
    """Add to the state of a system who leads, and note that no later start may make the registers; return what is noted.

    Where that cannot be noted, the next start lets a store make one that does not exist; the store refuses to make one that did.
    """
    stores = [store for store in plan.stores if store.replica]
    if not stores:
        return replication
    views = {store.process: view_of(store.check, ANSWER_SECONDS_MAX) for store in stores}
    add_roles(state["brokers"], views)
    made = with_registers(replication, (store.broker for store in stores))
    try:
        if made != replication:
            record(data, made)
    except (Refused, OSError) as error:
        output.line("gantry", f"cannot note that the registers are made: {error}")
    return made
