"""The orders of a system with replicas: its brokers get and lose stores while it runs.

Each order changes the plan and its record in one step, so that a later start has what this one has. Callers then restart the stores, one
after the other, under the new list: `commands/changing_replicas.py`.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from gantry_launcher.access.keys import KeyFolder
from gantry_launcher.errors import Refused
from gantry_launcher.layout import DataDir
from gantry_launcher.options import Set, UpOptions
from gantry_launcher.output.service_log import Output
from gantry_launcher.planning.plan import make_plan
from gantry_launcher.planning.ports import STORE_BLOCK, Ports
from gantry_launcher.planning.replicas import NoSuchReplica, Replication
from gantry_launcher.planning.system_plan import StorePlan, SystemPlan
from gantry_launcher.processes.orders import Restarts, System
from gantry_launcher.serving.replica_record import record
from gantry_launcher.serving.replicas_ready import Settling, note_ready

ADD, SETTLE = "replica-add", "replica-settle"
"""Start a replica with a new name, and let `min_in_sync` be so many meanwhile (0: as ever); end that. `SETTLE BROKER`, `ADD BROKER MIN`.

`SETTLE` also ends what an interrupted removal left: all replicas are planned, and none is held.
"""
PART, HOLD, KEEP, FORGET = "replica-part", "replica-hold", "replica-keep", "replica-forget"
"""Plan the others without one that runs on; stop it; undo both; take it out of the system. Each with BROKER NAME."""


class GroupOrders:
    """The replicas of one run."""

    def __init__(
        self,
        options: UpOptions,
        ports: Ports,
        keys: KeyFolder | None,
        replication: Replication,
        plan: SystemPlan,
        output: Output,
        say: Callable[[str], None],
    ) -> None:
        self._data, self._options, self._ports, self._keys = DataDir(options.data), options, ports, keys
        self._replication, self._plan, self._output = replication, plan, output
        self._settling = Settling(plan, output, say)
        self._restarts = Restarts()
        self._meanwhile: tuple[Set, ...] = ()
        """What is set while a replica is added."""
        self._leaving_orders = {PART: self._part, HOLD: self._hold, KEEP: self._keep, FORGET: self._forget}

    def note_ready(self, state: dict[str, Any]) -> None:
        """Add who leads, and note that the registers are made."""
        self._replication = note_ready(self._data, self._plan, self._replication, self._output, state)

    def is_settled(self, now: float) -> bool:
        """See Orders: the replicas are in sync."""
        return self._settling.is_over(now)

    def obey(self, words: Sequence[str], system: System) -> dict[str, Any]:
        """See Orders."""
        match words:
            case [order, broker, needed] if order == ADD and needed.isdecimal():
                return self._add(broker, int(needed), system)
            case [order, broker] if order == SETTLE:
                return self._settle(broker, system)
            case [order, broker, name] if order in self._leaving_orders:
                return self._leaving_orders[order](broker, name, system)
            case _:
                return self._restarts.obey(words, system)

    def _add(self, broker: str, needed: int, system: System) -> dict[str, Any]:
        if broker not in self._replication.with_register:
            raise Refused(f"{broker} has no register yet")
        try:
            replication, name = self._replication.with_added(broker)
        except NoSuchReplica as error:
            raise Refused(str(error)) from error
        self._change_min(broker, needed)
        self._use(replication, system)
        return {"name": name}

    def _settle(self, broker: str, system: System) -> dict[str, Any]:
        self._change_min(broker, 0)
        self._plan_again(system)
        for store in self._plan.stores:
            if store.broker == broker:
                system.release(store.process)
        return {}

    def _change_min(self, broker: str, needed: int) -> None:
        """Set `min_in_sync` of a broker's stores in later plans of this run; 0: as the options have it."""
        sets = [one for one in self._options.sets if one not in self._meanwhile]
        self._meanwhile = (Set(broker, "min_in_sync", str(needed)),) if needed else ()
        self._options = replace(self._options, sets=(*self._meanwhile, *sets))

    def _part(self, broker: str, name: str, system: System) -> dict[str, Any]:
        """Plan the others without a replica, which runs on. Nothing is noted: a start meanwhile has them all."""
        replication, leaving = self._without(broker, name), self._store(broker, name)
        plan = self._planned(replication)
        process = next(one for one in self._plan.processes if one.name == leaving.process)
        stores = sorted((*plan.stores, leaving), key=lambda one: one.process)
        ports = {**self._plan.ports, **plan.ports}  # its own stay its own: it may be kept
        self._plan = replace(plan, processes=(*plan.processes, process), stores=tuple(stores), ports=ports)
        system.use(self._plan)
        return {}

    def _hold(self, broker: str, name: str, system: System) -> dict[str, Any]:
        return {"pid": system.hold(self._store(broker, name).process)}

    def _keep(self, broker: str, name: str, system: System) -> dict[str, Any]:
        store = self._store(broker, name)
        self._plan_again(system)
        return {"pid": system.release(store.process)}

    def _forget(self, broker: str, name: str, system: System) -> dict[str, Any]:
        replication, store = self._without(broker, name), self._store(broker, name)
        if system.is_running(store.process):
            raise Refused(f"{store.process} still runs")
        port = int(store.address.rpartition(":")[2])
        self._use(replication, system)
        self._ports.release(port, STORE_BLOCK)
        return {"store": store.directory}

    def _without(self, broker: str, name: str) -> Replication:
        try:
            return self._replication.without(broker, name)
        except NoSuchReplica as error:
            raise Refused(str(error)) from error

    def _store(self, broker: str, name: str) -> StorePlan:
        """Return the store of a replica. Raises Refused where there is none, or none any more: a launcher must not end by an order."""
        found = next((one for one in self._plan.stores if (one.broker, one.replica) == (broker, name)), None)
        if found is None:
            raise Refused(f"{broker} has no replica {name}")
        return found

    def _planned(self, replication: Replication) -> SystemPlan:
        """Return the plan of a system that continues on its ports. Raises Refused."""
        names = {
            name
            for broker in {store.broker for store in self._plan.stores}
            for name in (broker, *(f"{broker}-{one}" for one in replication.names_of(broker)))
        }
        ports = self._plan.ports
        kept = {name: ports[name] for name in ports if name in names or not name.startswith("broker-")}
        sets = tuple(one for one in self._options.sets if not _is_of_another(one.service, names))
        options = replace(self._options, sets=sets)
        return make_plan(options, self._ports, self._keys, replication, kept)

    def _plan_again(self, system: System) -> None:
        """Plan what is noted. It writes nothing, so that a full disk keeps no replica stopped."""
        self._plan = self._planned(self._replication)
        system.use(self._plan)

    def _use(self, replication: Replication, system: System) -> None:
        """Plan, note durably, then act. Raises Refused, and has done nothing then."""
        plan = self._planned(replication)
        try:
            record(self._data, replication)
        except OSError as error:
            raise Refused(f"cannot write {self._data.replication}: {error.strerror}") from error
        self._replication, self._plan = replication, plan
        system.use(plan)


def _is_of_another(service: str, names: Collection[str]) -> bool:
    """Whether a setting is of a store that is not in the system any more."""
    return service.startswith("broker-") and service != "broker-store" and service not in names
