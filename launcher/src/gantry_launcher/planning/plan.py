"""From the options of `up` to a plan: which processes, with which arguments, on which ports, in which order stopped."""

import os
import signal
import socket
from collections.abc import Callable, Mapping
from typing import Any

from gantry_launcher import layout
from gantry_launcher.access.exposure import AccessControl, is_permissive
from gantry_launcher.access.keys import KeyFolder
from gantry_launcher.errors import Refused
from gantry_launcher.options import Set, UpOptions
from gantry_launcher.planning.health import Check
from gantry_launcher.planning.nats_nodes import LOOPBACK, NODES, NatsNode, urls_of
from gantry_launcher.planning.ports import STORE_BLOCK, Ports
from gantry_launcher.planning.replicas import STORES_MAX, Replication, Seat, base_step, seats
from gantry_launcher.planning.system_plan import ProcessPlan, StorePlan, SystemPlan

GATEWAY_PORT, GRPC_PORT, NAMESERVER_PORT = 8080, 8081, 9876
GRPC_STEP = 9
GRPC_OFF = "-1"
SCHEDULER_PORT, CHECKER_PORT = 10921, 10931
WORKER_BLOCK = (0, 2)
"""A scheduler or checker derives: HTTP +2."""
ROLES = ("nats", "redis", "nameserver", "scheduler", "txn-checker", "gateway")
NATS_STEPS = (3, 280, 281)
NATS_ROUTE_STEPS = (285, 286, 287)
"""Distances of the servers of a cluster from --port-base: behind the stores, except for the first."""
NATS_SILENT = (
    "[INF]",
    "Plaintext passwords detected",  # it would rather have a hash of its token; the file that holds it is for its user alone
    "Error trying to connect to route (attempt 1)",  # the servers of a cluster start together
    "Waiting for routing to be established",
    "Metalayer blocking snapshot",
    "Error flushing: writev",  # they stop together, too
)
"""Lines of NATS that are not shown."""
SET_BY_LAUNCHER = frozenset({
    "log_file", "health_port", "worker_ports", "access_key_file", "access_initial_user_file",
    "replica", "replicas", "register_servers", "ha_bootstrap", "ha_bootstrap_once",
})  # fmt: skip
OF_ONE_STORE = frozenset({"port", "http_port", "fast_port", "store_dir"})
"""Settings that no two stores may share."""
OWN_VARIABLES = ("NAMESERVER_", "BROKER_STORE_", "SCHEDULER_", "TXN_CHECKER_", "GATEWAY_", "GANTRY_")
"""Prefixes of variables that are settings and may be secrets: a process gets only its own."""


def make_plan(
    options: UpOptions,
    ports: Ports,
    keys: KeyFolder | None,
    replication: Replication,
    earlier: Mapping[str, int] | None = None,
) -> SystemPlan:
    """Return the plan; with keys its access control is on. Raises Refused for contradicting options and for ports that are taken.

    `earlier` are the ports of a plan by which the system runs: they stay, and only new processes get others.
    """
    return _Planner(options, ports, keys, replication, dict(earlier or {})).plan()


class _Planner:
    def __init__(
        self,
        options: UpOptions,
        ports: Ports,
        keys: KeyFolder | None,
        replication: Replication,
        chosen: dict[str, int],
    ) -> None:
        self._options, self._ports, self._keys, self._replication = options, ports, keys, replication
        self._chosen = chosen
        self._is_running = bool(chosen)
        self._data = layout.DataDir(options.data)
        self._seats = seats(options.brokers, replication)
        if len(self._seats) > STORES_MAX:
            raise Refused(
                f"--brokers {options.brokers} with {replication.replicas} replicas each: at most {STORES_MAX} stores"
            )
        self._layers = {one.process: ("broker-store", one.broker, one.process) for one in self._seats}
        """Each store, and the names under which its settings can be given; a later one wins."""
        self._near = _reachable_from_here(options.listen)
        self._refuse_unknown_sets()

    def plan(self) -> SystemPlan:
        nodes, redis = self._nats_nodes(), self._side_port("redis", 4)
        nats_url, redis_url = urls_of(nodes), f"redis://{LOOPBACK}:{redis}/0"
        nameserver, address = self._nameserver(nats_url)
        stores = self._stores(address, nodes)
        scheduler = self._worker("scheduler", "scheduler", SCHEDULER_PORT, 5, address, nats_url)
        checker = self._worker("txn-checker", "txn_checker", CHECKER_PORT, 6, address, nats_url)
        gateways, http = self._gateways(address, nats_url, redis_url)
        processes = [
            *(self._nats(node) for node in nodes),
            self._redis(redis),
            nameserver,
            *(process for process, _ in stores),
            scheduler,
            checker,
            *gateways,
        ]
        plans = tuple(store for _, store in stores)
        access = AccessControl.of(
            has_keys=self._keys is not None,
            is_insecure=self._options.insecure,
            is_permissive=is_permissive(self._options.sets),
        )
        listen, grpc = self._options.listen, self._grpc_port()
        return SystemPlan(
            tuple(processes),
            http,
            address,
            nodes,
            redis_url,
            plans,
            listen,
            access,
            dict(self._chosen),
            _joined(self._near, grpc) if grpc >= 0 else "",
        )

    def _nats_names(self) -> list[str]:
        return [f"nats-{at + 1}" for at in range(NODES)] if self._replication.replicas > 1 else ["nats"]

    def _nats_nodes(self) -> tuple[NatsNode, ...]:
        names = self._nats_names()
        ports = [self._side_port(name, step) for name, step in zip(names, NATS_STEPS, strict=False)]
        if len(names) == 1:
            return (NatsNode(names[0], LOOPBACK, ports[0]),)
        return tuple(
            NatsNode(name, LOOPBACK, port, self._derived_port(f"the cluster of {name}", step))
            for name, port, step in zip(names, ports, NATS_ROUTE_STEPS, strict=True)
        )

    def _nats(self, node: NatsNode) -> ProcessPlan:
        config = str(self._data.nats_node_config(node.name) if node.route_port else self._data.nats_config)
        command = (str(layout.nats_server()), "-c", config, "-a", node.host, "-p", str(node.port))
        check = Check("nats", node.host, node.port)
        # Go writes its stacks at SIGQUIT, and ends.
        return ProcessPlan(
            node.name, "nats", command, self._folder(node.name), check, 3, 4, self._log(node.name), NATS_SILENT,
            rolls_log=False, dump_signal=signal.SIGQUIT,
        )  # fmt: skip

    def _redis(self, port: int) -> ProcessPlan:
        # Nothing in it is worth a file: rate-limit buckets and caches that may be forgotten.
        words = f"--bind {LOOPBACK} --port {port} --save  --appendonly no --maxmemory 64mb --loglevel warning"
        config = str(self._data.redis_config)
        command = (
            str(layout.valkey_server()),
            config,
            *words.split(" "),
            "--maxmemory-policy",
            "volatile-lru",
        )
        check = Check("redis", LOOPBACK, port)
        silent = ("Memory overcommit",)  # it never forks to save
        return ProcessPlan(
            "redis", "redis", command, self._folder("redis"), check, 3, 4, self._log("redis"), silent,
            rolls_log=False, dump_signal=None,
        )  # fmt: skip

    def _nameserver(self, nats_url: str) -> tuple[ProcessPlan, str]:
        port = self._port("nameserver", NAMESERVER_PORT, 1, (0, 1))
        http_port = int(self._asked("nameserver", "http_port", str(port + 1)))
        settings = {
            "listen": self._options.listen,
            "port": port,
            "http_port": http_port,
            "data_dir": self._folder("nameserver"),
            "nats_url": nats_url,
            "nats_token_file": self._data.nats_token,
            **self._access("nameserver"),
        }
        settings |= self._access_cluster()
        check = self._http_check(http_port, "nameserver")
        log = self._log("nameserver")
        command = self._python("nameserver", {**settings, "log_file": log}, "nameserver")
        plan = ProcessPlan("nameserver", "nameserver", command, self._folder("nameserver"), check, 2, 4, log)
        return plan, _joined(self._near, port)

    def _access_cluster(self) -> dict[str, Any]:
        """Return the setting of the cluster whose rights count: that of the stores."""
        if self._keys is None:
            return {}
        return {"access_cluster": self._asked(self._seats[0].process, "cluster_name", "DefaultCluster")}

    def _stores(self, nameserver: str, nodes: tuple[NatsNode, ...]) -> list[tuple[ProcessPlan, StorePlan]]:
        ports = {
            one.process: self._port(one.process, one.known_port, self._store_step(one), STORE_BLOCK)
            for one in self._seats
        }
        return [self._store(one, ports, nameserver, nodes) for one in self._seats]

    def _store_step(self, seat: Seat) -> int:
        """Return a store's distance from --port-base: a store that is added to a running system gets a place that no other has."""
        base = self._options.port_base
        if base is None or not self._is_running:
            return seat.base_step
        taken = set(self._chosen.values())
        steps = (step for index in range(STORES_MAX) if base + (step := base_step(index)) not in taken)
        return next(steps, seat.base_step)

    def _store_address(self, process: str, port: int) -> str:
        """Return the address that a store tells clients and its other replicas."""
        advertise = self._asked(process, "advertise", _reachable_from_outside(self._options.listen))
        return _joined(advertise, port)

    def _replica(self, seat: Seat, ports: Mapping[str, int]) -> dict[str, Any]:
        """Return the settings of a store that is one of a broker's replicas."""
        if not seat.replica:
            return {}
        group = [one for one in self._seats if one.broker == seat.broker]
        places = (f"{one.replica}={self._store_address(one.process, ports[one.process])}" for one in group)
        return {
            "replica": seat.replica, "replicas": ";".join(places), "register_servers": NODES,
            "replication": self._options.replication,
        }  # fmt: skip

    def _bootstrap(self, seat: Seat) -> tuple[str, ...]:
        """Return what lets a store make the first record of its broker's register: one of them may, while there is none."""
        is_first = seat.replica == next(one.replica for one in self._seats if one.broker == seat.broker)
        may = bool(seat.replica) and is_first and seat.broker not in self._replication.with_register
        return ("--set", "ha_bootstrap=true") if may else ()

    def _store(
        self, seat: Seat, ports: Mapping[str, int], nameserver: str, nodes: tuple[NatsNode, ...]
    ) -> tuple[ProcessPlan, StorePlan]:
        process, port = seat.process, ports[seat.process]
        http_port = int(self._asked(process, "http_port", str(port + 2)))
        name = self._asked(process, "broker_name", seat.broker)
        folder = str(self._data.path.joinpath(*seat.folder))
        directory = self._asked(process, "store_dir", folder)
        advertise = self._asked(process, "advertise", _reachable_from_outside(self._options.listen))
        settings = {
            "listen": self._options.listen,
            "port": port,
            "http_port": http_port,
            "advertise": advertise,
            "store_dir": directory,
            "broker_name": name,
            "nameservers": nameserver,
            "flush": self._options.flush,
            # Each prefers a server of its own, as on machines of their own.
            "nats_url": urls_of(nodes, seat.index),
            "nats_token_file": self._data.nats_token,
            **self._replica(seat, ports),
            **self._access(process),
        }
        if self._keys is not None:
            settings["access_initial_user_file"] = self._keys.initial_user
        check = self._http_check(http_port, process)
        log = self._log(process)
        command = self._python("broker_store", {**settings, "log_file": log}, *self._layers[process])
        plan = ProcessPlan(
            process, "broker", command, folder, check, 1, 25, log, until_ready=self._bootstrap(seat)
        )
        http, address = self._url(process, http_port), self._store_address(process, port)
        return plan, StorePlan(name, address, http, directory, process, check, seat.replica)

    def _worker(
        self, service: str, module: str, known: int, step: int, nameserver: str, nats_url: str
    ) -> ProcessPlan:
        """Return a scheduler or txn-checker: it works on the queues of the stores, and all its own state can be rebuilt."""
        port = self._port(service, known, step, WORKER_BLOCK)
        http_port = int(self._asked(service, "http_port", str(port + 2)))
        settings = {
            "listen": self._options.listen,
            "port": port,
            "http_port": http_port,
            "advertise": self._asked(service, "advertise", _reachable_from_outside(self._options.listen)),
            **({"data_dir": self._folder(service)} if service == "scheduler" else {}),
            "nameservers": nameserver,
            "nats_url": nats_url,
            "nats_token_file": self._data.nats_token,
            **self._access(service),
            **self._access_cluster(),
        }
        log = self._log(service)
        command = self._python(module, {**settings, "log_file": log}, service)
        check = self._http_check(http_port, service)
        return ProcessPlan(service, service, command, self._folder(service), check, 0, 8, log)

    def _gateways(self, nameserver: str, nats_url: str, redis_url: str) -> tuple[list[ProcessPlan], str]:
        port = self._port("gateway", GATEWAY_PORT, 0)
        count = self._options.gateway_workers
        settings = {
            "listen": self._options.listen,
            "port": port,
            "grpc_port": self._grpc_port(),
            "grpc_advertise": self._options.grpc_advertise,
            "nameservers": nameserver,
            "nats_url": nats_url,
            "nats_token_file": self._data.nats_token,
            "redis_url": redis_url,
            "redis_password_file": self._data.redis_password,
            **self._access_cluster(),
        }
        plans: list[ProcessPlan] = []
        own_ports = (
            [self._once(f"gateway-{at + 1} health", self._ports.free) for at in range(count)]
            if count > 1
            else []
        )
        for worker in range(count):
            name = "gateway" if count == 1 else f"gateway-{worker + 1}"
            log, check, own_check = self._log(name), self._http_check(port, "gateway"), None
            share: dict[str, Any] = {"log_file": log, **self._access(name)}
            if count > 1:
                own_check = self._http_check(own_ports[worker], "gateway", LOOPBACK)
                share |= {"reuse_port": "true", "worker": worker, "health_port": own_check.port}
                share["worker_ports"] = ",".join(map(str, own_ports))
            command = self._python("gateway", {**settings, **share}, "gateway")
            folder = self._folder("gateway")
            plans.append(
                ProcessPlan(name, "gateway", command, folder, check, 0, 12, log, own_check=own_check)
            )
        return plans, self._url("gateway", port)

    def _grpc_port(self) -> int:
        """Return the gateways' gRPC port; -1 if it is off."""
        asked = self._asked("gateway", "grpc_port", "")
        if asked == GRPC_OFF:
            return int(GRPC_OFF)

        def choose() -> int:
            if asked:
                return self._ports.fixed(int(asked), "gateway gRPC")
            if self._options.free_ports:
                return self._ports.free()
            base = self._options.port_base
            return self._ports.fixed(GRPC_PORT if base is None else base + GRPC_STEP, "gateway gRPC")

        return self._once("gateway gRPC", choose)

    def _url(self, service: str, port: int) -> str:
        """Return the address of an HTTP port for callers on this machine."""
        scheme = "https" if self._asked(service, "tls_mode", "") == "enforcing" else "http"
        return f"{scheme}://{_joined(self._near, port)}"

    def _python(self, module: str, settings: dict[str, Any], *services: str) -> tuple[str, ...]:
        """Return the command of one of our services. Settings of the user override ours; those of a later name override those of one before."""
        asked = {one.key: one.value for service in services for one in self._sets(service)}
        pairs = {**settings, **asked}
        words = [word for key, value in pairs.items() for word in ("--set", f"{key}={value}")]
        return (str(layout.PYTHON), "-P", "-m", module, *words)

    def _http_check(self, port: int, process: str, host: str = "") -> Check:
        """Return the check of a service's HTTP port. It shows the certificate that the service shows others."""
        files = (self._set_anywhere(process, f"tls_client_{one}_file") for one in ("cert", "key"))
        return Check("http", host or self._near, port, *files)

    def _set_anywhere(self, process: str, key: str) -> str:
        """Return a setting of a process: by an option, or else by a variable of its service."""
        service = "broker-store" if process in self._layers else process
        variable = f"{service}_{key}".upper().replace("-", "_")
        return self._asked(process, key, os.environ.get(variable, ""))

    def _access(self, process: str) -> dict[str, Any]:
        """Return the settings of a process that switch access control on, or let it listen without."""
        insecure = {"insecure": "true"} if self._options.insecure else {}
        if self._keys is None:
            return insecure
        return {
            **(insecure if is_permissive(self._options.sets) else {}),
            "access_key_file": self._keys.key_file,
            "access_audit_file": self._data.audit / f"{process}.jsonl",
        }

    def _port(self, service: str, known: int, step: int, block: tuple[int, ...] = (0,)) -> int:
        """Return the port a process listens on: set by the user, well-known, from the base, or free."""

        def choose() -> int:
            asked = self._asked(service, "port", "")
            if asked:
                return self._ports.fixed(int(asked), service, block)
            if self._options.free_ports:
                return self._ports.free(block)
            base = self._options.port_base
            return self._ports.fixed(known if base is None else base + step, service, block)

        return self._once(service, choose)

    def _once(self, name: str, choose: Callable[[], int]) -> int:
        """Return the port that was chosen for this name, in this plan or in an earlier one."""
        if name not in self._chosen:
            self._chosen[name] = choose()
        return self._chosen[name]

    def _side_port(self, service: str, step: int) -> int:
        """Return the port of NATS or Redis: a free one unless there is a base, because users do not need it."""
        asked = self._asked(service, "port", "")
        if asked:
            return self._once(service, lambda: self._ports.fixed(int(asked), service))
        return self._derived_port(service, step)

    def _derived_port(self, words: str, step: int) -> int:
        base = self._options.port_base
        return self._once(
            words, lambda: self._ports.free() if base is None else self._ports.fixed(base + step, words)
        )

    def _asked(self, service: str, key: str, default: str) -> str:
        """Return what the user set for a process, else the default. Refuses a port that is no number."""
        found = default
        for one in (one for name in self._layers.get(service, (service,)) for one in self._sets(name)):
            if one.key == key:
                found = one.value
                if (key, found) == ("grpc_port", GRPC_OFF):
                    continue
                if key.endswith("port") and not (found.isdigit() and 3 <= int(found) <= 65530):
                    raise Refused(f"--set {one.service}.{key}={found}: not a port")
        return found

    def _sets(self, service: str) -> list[Set]:
        return [one for one in self._options.sets if one.service == service]

    def _folder(self, process: str) -> str:
        return str(self._data.of(process))

    def _log(self, process: str) -> str:
        return str(self._data.log_of(process))

    def _refuse_unknown_sets(self) -> None:
        nats, groups = self._nats_names(), list(dict.fromkeys(one.broker for one in self._seats))
        others = [role for role in ROLES if role != "nats"]
        known = list(dict.fromkeys([*nats, *others, "broker-store", *groups, *self._layers]))
        for one in self._options.sets:
            if one.service not in known:
                raise Refused(
                    f"--set {one.service}.{one.key}: no service of that name; there are {', '.join(known)}"
                )
            meant = [process for process, names in self._layers.items() if one.service in names]
            if one.key in OF_ONE_STORE and len(meant) > 1:
                raise Refused(f"--set {one.service}.{one.key}: say which of {', '.join(meant)} is meant")
            named = list(dict.fromkeys(self._layers[process][1] for process in meant))
            if one.key == "broker_name" and (len(named) > 1 or one.service not in {*groups, "broker-store"}):
                raise Refused(f"--set {one.service}.{one.key}: say which of {', '.join(groups)} is meant")
            if one.key in SET_BY_LAUNCHER:
                raise Refused(f"--set {one.service}.{one.key}: the launcher itself sets it")
            if one.service in {*nats, "redis"} and one.key != "port":
                raise Refused(f"--set {one.service}.{one.key}: only {one.service}.port can be set")


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _reachable_from_here(listen: str) -> str:
    return {"0.0.0.0": LOOPBACK, "::": "::1", "": LOOPBACK}.get(listen, listen)  # noqa: S104 - compared only


def _reachable_from_outside(listen: str) -> str:
    """Return the address that clients connect to: for a wildcard address, the source address of outgoing packets."""
    if listen not in {"0.0.0.0", "::"}:  # noqa: S104 - compared only
        return listen
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(
                ("192.0.2.1", 9)
            )  # a documentation address; connecting a datagram socket sends nothing
            return str(probe.getsockname()[0])
    except OSError:
        return LOOPBACK


def child_environment(role: str) -> dict[str, str]:
    """Return the environment of a process: its own settings only, unbuffered, and without an arena of memory for each thread."""
    service = "broker-store" if role == "broker" else role
    own = service.upper().replace("-", "_") + "_"
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(own) or not name.startswith(OWN_VARIABLES)
    }
    return {**inherited, "PYTHONUNBUFFERED": "1", "MALLOC_ARENA_MAX": "2"}
