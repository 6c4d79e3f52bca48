"""The options of `up`, `status`, `down` and `test`, and their bounds."""

import argparse
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from gantry_launcher.errors import Refused
from gantry_launcher.layout import ROOT

BROKERS_MAX = 26
REPLICAS = (1, 2, 3, 5)
"""How many replicas a broker may have. One of two, or two of three and of five, may fail; a fourth would add a copy and no failure more."""
GATEWAY_WORKERS_MAX = 64
TEST_WORKERS_MAX = 64
TEST_WORKERS_DEFAULT_MAX = 4
TEST_WORKERS_WAITING = 1
"""A third of the time of the tests is waiting: for timers, for disks, for processes that start. One more worker uses it."""
_AT_A_TERMINAL = ("--pdb", "--trace")
"""Words of pytest that several processes cannot follow."""
DEFAULT_USER = "admin"
_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,254}")
_BROKER = re.compile(r"broker-[a-z]")
HUNG_SECONDS_MAX = 86_400
TIMEOUT_SECONDS_MAX = 86_400
STEP_SECONDS_DEFAULT = 120
PORT_BASE_MIN, PORT_BASE_MAX = 1024, 65535 - 300


@dataclass(frozen=True)
class Set:
    """One `--set service.key=value`."""

    service: str
    key: str
    value: str


@dataclass(frozen=True)
class UpOptions:
    """What `up` was asked for."""

    data: Path
    free_ports: bool = False
    port_base: int | None = None
    brokers: int = 1
    replicas: int | None = None
    """Stores that keep the same log, for each broker; None: as many as the data directory has, 1 in a new one."""
    gateway_workers: int = 1
    grpc_advertise: str = ""
    """`host:port` where gRPC clients reach the gateways; empty: where each client says that it came to."""
    flush: str = "sync"
    replication: str = "sync"
    """With replicas: whether a send waits for the others (`sync`), or for the leader alone."""
    listen: str = "127.0.0.1"
    access: bool = False
    """Switch access control on before the start, if it is off."""
    insecure: bool = False
    """Let other machines reach a system without access control."""
    hung_seconds: int = 30
    """A process that answers nothing for so long is killed and started again; 0: never."""
    timeout_seconds: int = 0
    """A start that is not ready after so long fails; 0: it waits without end."""
    detach: bool = False
    json: bool = False
    sets: tuple[Set, ...] = ()
    asked_at: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class AccessOptions:
    """What `access init` or `access off` was asked for."""

    data: Path
    user: str = DEFAULT_USER
    keys: Path | None = None
    rotate_key: bool = False
    json: bool = False


@dataclass(frozen=True)
class RebuildOptions:
    """What `replicas rebuild-register` was asked for."""

    data: Path
    broker: str
    without: tuple[str, ...] = ()
    """Names of replicas that are lost for good."""
    replace: bool = False
    yes: bool = False
    sets: tuple[Set, ...] = ()


@dataclass(frozen=True)
class RestartOptions:
    """What `restart` was asked for."""

    data: Path
    timeout_seconds: int
    """A step that comes no nearer for so long fails."""
    is_all: bool
    """Also the processes without replicas."""


@dataclass(frozen=True)
class ReplicasOptions:
    """What `replicas add` or `replicas remove` was asked for."""

    data: Path
    timeout_seconds: int
    broker: str
    name: str = ""
    """The replica to remove; empty: add one."""


class Parser(argparse.ArgumentParser):
    """argparse, but a wrong word is one line, not a page."""

    def error(self, message: str) -> NoReturn:
        """Refuse in one line."""
        raise Refused(f"{message} (see ./gantry --help)")


def parse_up(words: list[str]) -> UpOptions:
    """Return the options of `up`, or raise Refused."""
    parser = _parser("up")
    ports = parser.add_mutually_exclusive_group()
    ports.add_argument("--free-ports", action="store_true")
    ports.add_argument("--port-base", type=_between(PORT_BASE_MIN, PORT_BASE_MAX))
    parser.add_argument("--brokers", type=_between(1, BROKERS_MAX), default=1)
    parser.add_argument("--replicas", choices=tuple(map(str, REPLICAS)))
    parser.add_argument("--gateway-workers", type=_between(1, GATEWAY_WORKERS_MAX), default=1)
    parser.add_argument("--grpc-advertise", default="")
    parser.add_argument("--flush", choices=("sync", "async"), default="sync")
    parser.add_argument("--replication", choices=("sync", "async"), default="sync")
    parser.add_argument("--listen", default="127.0.0.1")
    secured = parser.add_mutually_exclusive_group()
    secured.add_argument("--access", action="store_true")
    secured.add_argument("--insecure", action="store_true")
    parser.add_argument("--hung-seconds", type=_between(0, HUNG_SECONDS_MAX), default=30)
    parser.add_argument("--timeout", dest="timeout_seconds", type=_between(0, TIMEOUT_SECONDS_MAX), default=0)
    parser.add_argument("--detach", action="store_true")
    parser.add_argument("--set", dest="sets", action="append", type=_set, default=[])
    given = parser.parse_args(words)
    words_given: dict[str, Any] = {**vars(given), "data": _data(given.data), "sets": tuple(given.sets)}
    words_given["replicas"] = None if given.replicas is None else int(given.replicas)
    return UpOptions(**words_given)


def parse_access(word: str, words: list[str]) -> AccessOptions:
    """Return the options of `access init` or `access off`, or raise Refused."""
    parser = _parser(f"access {word}")
    if word == "init":
        parser.add_argument("--user", type=_user, default=DEFAULT_USER)
        parser.add_argument("--keys", type=lambda text: Path(text).absolute())
        parser.add_argument("--rotate-key", action="store_true")
    given = parser.parse_args(words)
    words_given: dict[str, Any] = {**vars(given), "data": _data(given.data)}
    return AccessOptions(**words_given)


def parse_rebuild(words: list[str]) -> RebuildOptions:
    """Return the options of `replicas rebuild-register`, or raise Refused."""
    parser = Parser(prog="./gantry replicas rebuild-register", add_help=False, allow_abbrev=False)
    parser.add_argument("broker", type=_broker)
    parser.add_argument("--data")
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--replace", action="store_true")
    parser.add_argument("--yes", action="store_true")
    parser.add_argument("--set", dest="sets", action="append", type=_set, default=[])
    given = parser.parse_args(words)
    return RebuildOptions(
        _data(given.data), given.broker, tuple(given.without), given.replace, given.yes, tuple(given.sets)
    )


def parse_data(command: str, words: list[str]) -> tuple[Path, bool]:
    """Return (data directory, JSON wanted) of `status` and `down`."""
    given = _parser(command).parse_args(words)
    return _data(given.data), given.json


def parse_demo(words: list[str]) -> int:
    """Return how many replicas `demo` starts."""
    parser = Parser(prog="./gantry demo", add_help=False, allow_abbrev=False)
    parser.add_argument("--replicas", choices=tuple(map(str, REPLICAS)), default="1")
    return int(parser.parse_args(words).replicas)


def parse_restart(words: list[str]) -> RestartOptions:
    """Return the options of `restart`, or raise Refused."""
    parser = _stepwise("restart")
    parser.add_argument("--rolling", action="store_true")
    parser.add_argument("--all", action="store_true")
    given = parser.parse_args(words)
    if not given.rolling:
        raise Refused(
            "write restart --rolling: one process after the other (all at once: ./gantry down, then up)"
        )
    return RestartOptions(_data(given.data), given.timeout_seconds, given.all)


def parse_replicas(words: list[str]) -> ReplicasOptions:
    """Return the options of `replicas add` and `replicas remove`, or raise Refused. The first word is one of these."""
    word, *rest = words
    parser = _stepwise(f"replicas {word}")
    parser.add_argument("broker")
    if word == "remove":
        parser.add_argument("name")
    given = parser.parse_args(rest)
    name = given.name if word == "remove" else ""
    return ReplicasOptions(_data(given.data), given.timeout_seconds, given.broker, name)


def _stepwise(command: str) -> Parser:
    """Return a parser for a command that changes a system step by step."""
    parser = Parser(prog=f"./gantry {command}", add_help=False, allow_abbrev=False)
    parser.add_argument("--data")
    limits = _between(1, TIMEOUT_SECONDS_MAX)
    parser.add_argument("--timeout", dest="timeout_seconds", type=limits, default=STEP_SECONDS_DEFAULT)
    return parser


def parse_test(words: list[str]) -> tuple[int, list[str]]:
    """Return (workers wanted, everything else) of `test`: pytest judges the rest."""
    debugs = any(word in words for word in _AT_A_TERMINAL)
    cores = os.cpu_count() or 1
    default = 1 if debugs or cores == 1 else min(cores + TEST_WORKERS_WAITING, TEST_WORKERS_DEFAULT_MAX)
    parser = Parser(prog="./gantry test", add_help=False, allow_abbrev=False)
    parser.add_argument("--workers", type=_between(1, TEST_WORKERS_MAX), default=default)
    given, arguments = parser.parse_known_args(words)
    return given.workers, arguments


def _parser(command: str) -> Parser:
    parser = Parser(prog=f"./gantry {command}", add_help=False, allow_abbrev=False)
    parser.add_argument("--data")
    parser.add_argument("--json", action="store_true")
    return parser


def _data(given: str | None) -> Path:
    if given is None:
        return ROOT / "data"
    if not given:
        raise Refused("--data is empty: name a directory, or leave it out for ./data")
    return Path(given).absolute()


def _set(words: str) -> Set:
    name, equals, value = words.partition("=")
    service, dot, key = name.partition(".")
    if not equals or not dot or not service or not key:
        raise argparse.ArgumentTypeError(f"{words!r}: write service.key=value")
    key = key.replace("-", "_")
    # A path is meant from where the command was typed, not from where the service will run.
    return Set(service, key, str(Path(value).absolute()) if key.endswith("_dir") else value)


def _broker(words: str) -> str:
    if not _BROKER.fullmatch(words):
        raise argparse.ArgumentTypeError(f"{words!r}: a broker is broker-a to broker-z")
    return words


def _user(words: str) -> str:
    if not _USER.fullmatch(words):
        raise argparse.ArgumentTypeError(f"{words!r}: a user name has 1 to 255 letters, digits, . _ @ or -")
    return words


def _between(low: int, high: int) -> Callable[[str], int]:
    def number(words: str) -> int:
        if not words.lstrip("-").isdigit() or not low <= int(words) <= high:
            raise argparse.ArgumentTypeError(f"{words!r} is not a number from {low} to {high}")
        return int(words)

    return number
