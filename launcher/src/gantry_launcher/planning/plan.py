"""From the options of `up` to a plan: which processes, with which arguments, on which ports, in which order stopped."""

import os
import signal
import socket
from dataclasses import dataclass
from typing import Any

from gantry_launcher import layout
from gantry_launcher.access.exposure import AccessControl, is_permissive
from gantry_launcher.access.keys import KeyFolder
from gantry_launcher.errors import Refused
from gantry_launcher.options import Set, UpOptions
from gantry_launcher.planning.health import Check
from gantry_launcher.planning.ports import STORE_BLOCK, Ports

GATEWAY_PORT, NAMESERVER_PORT, STORE_PORT = 8080, 9876, 10911
SCHEDULER_PORT, CHECKER_PORT = 10921, 10931
WORKER_BLOCK = (0, 2)
"""A scheduler or checker derives: HTTP +2."""
STORE_PORT_STEP = 100  # broker-b is 11011: 10921 and 10931 belong to other services
ROLES = ("nats", "redis", "nameserver", "scheduler", "txn-checker", "gateway")
LOOPBACK = "127.0.0.1"
NATS_ADVICE = "Plaintext passwords detected"
"""NATS would rather have a hash of its token; the file that holds it is for its user alone."""
SET_BY_LAUNCHER = frozenset(
    {"log_file", "health_port", "worker_ports", "access_key_file", "access_initial_user_file"}
)
OWN_VARIABLES = ("NAMESERVER_", "BROKER_STORE_", "SCHEDULER_", "TXN_CHECKER_", "GATEWAY_", "GANTRY_")
"""Prefixes of variables that are settings and may be secrets: a process gets only its own."""


@dataclass(frozen=True)
class ProcessPlan:
    """One process. Stages stop one after the other, the lowest first: callers stop before the processes they call.

    `check` shows whether the system can use the process, `watched` whether this process itself runs; both are equal when it has its own port.
    Lines that contain one of `silent` are not shown; they are kept in case the process cannot start.
    """

    name: str
    role: str
    command: tuple[str, ...]
    folder: str
    check: Check
    stage: int
    stop_seconds: float
    log: str
    silent: tuple[str, ...] = ()
    own_check: Check | None = None
    rolls_log: bool = True
    """Whether the process rotates its log itself."""
    dump_signal: int | None = signal.SIGUSR1
    """The signal that makes it log the stacks of its threads, even while it spins."""

    @property
    def watched(self) -> Check:
        """The address where this process itself answers."""
        return self.own_check or self.check


@dataclass(frozen=True)
class StorePlan:
    """Addresses of one broker-store."""

    name: str
    address: str
    http: str
    directory: str
    process: str


@dataclass(frozen=True)
class SystemPlan:
    """All processes and the public addresses."""

    processes: tuple[ProcessPlan, ...]
    http: str
    nameserver: str
    nats: str
    redis: str
    stores: tuple[StorePlan, ...]
    listen: str
    access: AccessControl

    def addresses(self) -> dict[str, Any]:
        """Return the fixed part of the object that `up --json` prints."""
        brokers = [
            {
                "name": store.name,
                "address": store.address,
                "http": store.http,
                "pid": None,
                "store": store.directory,
            }
            for store in self.stores
        ]
        return {
            "http": self.http,
            "nameserver": self.nameserver,
            "brokers": brokers,
            "nats": self.nats,
            "redis": self.redis,
            "listen": self.listen,
            "accessControl": self.access.value,
        }


def make_plan(options: UpOptions, ports: Ports, keys: KeyFolder | None) -> SystemPlan:
    """Return the plan; with keys its access control is on. Raises Refused for contradicting options and for ports that are taken."""
    return _Planner(options, ports, keys).plan()


class _Planner:
    def __init__(self, options: UpOptions, ports: Ports, keys: KeyFolder | None) -> None:
        self._options, self._ports, self._keys = options, ports, keys
        self._data = layout.DataDir(options.data)
        self._names = [f"broker-{chr(ord('a') + index)}" for index in range(options.brokers)]
        self._near = _reachable_from_here(options.listen)
        self._refuse_unknown_sets()

    def plan(self) -> SystemPlan:
        nats, redis = self._side_port("nats", 3), self._side_port("redis", 4)
        nats_url, redis_url = f"nats://{LOOPBACK}:{nats}", f"redis://{LOOPBACK}:{redis}/0"
        nameserver, address = self._nameserver(nats_url)
        stores = [self._store(index, address, nats_url) for index in range(self._options.brokers)]
        scheduler = self._worker("scheduler", "scheduler", SCHEDULER_PORT, 5, address, nats_url)
        checker = self._worker("txn-checker", "txn_checker", CHECKER_PORT, 6, address, nats_url)
        gateways, http = self._gateways(address, nats_url, redis_url)
        processes = [
            self._nats(nats),
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
        listen = self._options.listen
        return SystemPlan(tuple(processes), http, address, nats_url, redis_url, plans, listen, access)

    def _nats(self, port: int) -> ProcessPlan:
        config = str(self._data.nats_config)
        command = (str(layout.nats_server()), "-c", config, "-a", LOOPBACK, "-p", str(port))
        check = Check("nats", LOOPBACK, port)
        # Go writes its stacks at SIGQUIT, and ends.
        return ProcessPlan(
            "nats", "nats", command, self._folder("nats"), check, 3, 4, self._log("nats"), ("[INF]", NATS_ADVICE),
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
        return {"access_cluster": self._asked(self._names[0], "cluster_name", "DefaultCluster")}

    def _store(self, index: int, nameserver: str, nats_url: str) -> tuple[ProcessPlan, StorePlan]:
        process = self._names[index]
        offset = index * (10 if self._options.port_base else STORE_PORT_STEP)
        port = self._port(process, STORE_PORT + offset, 12 + offset, STORE_BLOCK)
        http_port = int(self._asked(process, "http_port", str(port + 2)))
        name = self._asked(process, "broker_name", process)
        directory = self._asked(process, "store_dir", self._folder(process))
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
            "nats_url": nats_url,
            "nats_token_file": self._data.nats_token,
            **self._access(process),
        }
        if self._keys is not None:
            settings["access_initial_user_file"] = self._keys.initial_user
        check = self._http_check(http_port, process)
        log = self._log(process)
        command = self._python("broker_store", {**settings, "log_file": log}, process, "broker-store")
        plan = ProcessPlan(process, "broker", command, self._folder(process), check, 1, 25, log)
        http = self._url(process, http_port)
        return plan, StorePlan(name, _joined(advertise, port), http, directory, process)

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
            "nameservers": nameserver,
            "nats_url": nats_url,
            "nats_token_file": self._data.nats_token,
            "redis_url": redis_url,
            "redis_password_file": self._data.redis_password,
            **self._access_cluster(),
        }
        plans: list[ProcessPlan] = []
        own_ports = [self._ports.free() for _ in range(count)] if count > 1 else []
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

    def _url(self, service: str, port: int) -> str:
        """Return the address of an HTTP port for callers on this machine."""
        scheme = "https" if self._asked(service, "tls_mode", "") == "enforcing" else "http"
        return f"{scheme}://{_joined(self._near, port)}"

    def _python(self, module: str, settings: dict[str, Any], *services: str) -> tuple[str, ...]:
        """Return the command of one of our services. Settings of the user override ours."""
        asked = {one.key: one.value for service in reversed(services) for one in self._sets(service)}
        pairs = {**settings, **asked}
        words = [word for key, value in pairs.items() for word in ("--set", f"{key}={value}")]
        return (str(layout.PYTHON), "-P", "-m", module, *words)

    def _http_check(self, port: int, process: str, host: str = "") -> Check:
        """Return the check of a service's HTTP port. It shows the certificate that the service shows others."""
        files = (self._set_anywhere(process, f"tls_client_{one}_file") for one in ("cert", "key"))
        return Check("http", host or self._near, port, *files)

    def _set_anywhere(self, process: str, key: str) -> str:
        """Return a setting of a process: by an option, or else by a variable of its service."""
        service = "broker-store" if process in self._names else process
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
        asked = self._asked(service, "port", "")
        if asked:
            return self._ports.fixed(int(asked), service, block)
        if self._options.free_ports:
            return self._ports.free(block)
        base = self._options.port_base
        return self._ports.fixed(known if base is None else base + step, service, block)

    def _side_port(self, service: str, step: int) -> int:
        """Return the port of NATS or Redis: a free one unless there is a base, because users do not need it."""
        asked = self._asked(service, "port", "")
        if asked:
            return self._ports.fixed(int(asked), service)
        base = self._options.port_base
        return self._ports.free() if base is None else self._ports.fixed(base + step, service)

    def _asked(self, service: str, key: str, default: str) -> str:
        """Return what the user set for a process, else the default. Refuses a port that is no number."""
        found = default
        services = ("broker-store", service) if service in self._names else (service,)
        for one in self._options.sets:
            if one.service in services and one.key == key:
                found = one.value
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
        known = [*ROLES, "broker-store", *self._names]
        for one in self._options.sets:
            if one.service not in known:
                raise Refused(
                    f"--set {one.service}.{one.key}: no service of that name; there are {', '.join(known)}"
                )
            own = one.key in {"port", "http_port", "fast_port", "store_dir", "broker_name"}
            if own and one.service == "broker-store" and len(self._names) > 1:
                raise Refused(f"--set broker-store.{one.key}: say which of {', '.join(self._names)} is meant")
            if one.key in SET_BY_LAUNCHER:
                raise Refused(f"--set {one.service}.{one.key}: the launcher itself sets it")
            if one.service in {"nats", "redis"} and one.key != "port":
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
