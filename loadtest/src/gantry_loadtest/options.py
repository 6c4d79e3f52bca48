"""Parses the arguments of `./gantry load` within their bounds; errors are one line. Standard library only."""

import argparse
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from gantry_loadtest.catalog import PROFILES, Entry
from gantry_loadtest.judging.verdict import Limits

USERS_MAX = 10_000
RATE_MAX = 100_000
SECONDS_MIN, SECONDS_MAX = 3, 7 * 86_400
SIZE_MAX = 4_000_000
COUNT_MAX = 1000
WORKERS_MAX = 1000
MASTER_PORT = 5557
DRAIN_SECONDS = 40.0
"""Longer than a lease (30 s) and a broker's wait before a transaction check (6 s)."""
DRAIN_SECONDS_MIN, DRAIN_SECONDS_MAX = 1, 3600


class Refused(Exception):
    """The request cannot be carried out; the text says why and what to do instead."""


@dataclass(frozen=True)
class Plan:
    """One run, with every default filled in."""

    entry: Entry
    users: int
    rate: float
    seconds: float
    size: int
    count: int
    host: str | None
    """Where the gateway is; None: start a system for this run."""
    headless: bool
    json: bool
    out: Path | None
    limits: Limits
    token: str = ""
    role: str = "local"
    """local, master or worker."""
    drain: float = DRAIN_SECONDS
    """How long readers continue without an arrival while acknowledged messages are missing."""
    workers: int = 0
    master: tuple[str, int] = ("127.0.0.1", MASTER_PORT)

    @property
    def load_seconds(self) -> float:
        """Return how long users send; the rest of `seconds` is for messages in flight."""
        return self.seconds - min(max(self.seconds * 0.2, 1.5), 30.0)

    @property
    def rate_per_user(self) -> float:
        """Return how often a second each user acts."""
        return self.rate / self.users


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Refused(f"{message} (see ./gantry load --help)")


def parse(words: list[str]) -> Plan | str:
    """Return the requested run, or a text to print instead. Raises Refused, or SystemExit after --help."""
    given = _parser().parse_args(words)
    if given.list:
        return _listed(as_json=given.json)
    if given.profile is None:
        raise Refused(f"which profile? There are {', '.join(PROFILES)} (./gantry load --list tells of them)")
    entry = PROFILES.get(given.profile)
    if entry is None:
        near = get_close_matches(given.profile, PROFILES, n=2, cutoff=0.5)
        meant = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(PROFILES)}"
        raise Refused(f"no such profile: {given.profile}; {meant}")
    return _plan(entry, given)


def _plan(entry: Entry, given: argparse.Namespace) -> Plan:
    def chosen(name: str) -> Any:
        value = getattr(given, name)
        return getattr(entry, name) if value is None else value

    if given.count is not None and not entry.count:
        raise Refused(f"--count: {entry.name} has no groups or topics to count; fan-out and topics have")
    if given.worker and given.master is not None:
        raise Refused("--master and --worker: a process is one of them")
    if given.worker and given.out:
        raise Refused("--out: a worker writes no report, its master does")
    role = "worker" if given.worker else "master" if given.master is not None else "local"
    if role != "local" and given.host is None:
        raise Refused("--host is needed with --master and --worker: all of them load the same system")
    limits = Limits(
        **{
            one.name: getattr(given, one.name)
            for one in fields(Limits)
            if getattr(given, one.name) is not None
        }
    )
    users = chosen("users")
    return Plan(
        entry, users, float(chosen("rate")), float(chosen("seconds")), chosen("size"), chosen("count"),
        given.host, given.headless, given.json, _folder(given.out), limits,
        os.environ.get("GANTRY_TOKEN", ""), role,
        DRAIN_SECONDS if given.drain is None else float(given.drain), given.master or 0, _address(given.worker),
    )  # fmt: skip


def _parser() -> _Parser:
    parser = _Parser(
        prog="./gantry load",
        allow_abbrev=False,
        description="Load a system over HTTP, check every message, and say what was seen. Without --host a system is started for it.",
        epilog="Exit status: 0 within the limits, 1 not, 2 refused, 130 interrupted. See --list and docs/load.md for the profiles.",
    )
    parser.add_argument("profile", nargs="?", metavar="PROFILE")
    parser.add_argument(
        "--list",
        action="store_true",
        help="the profiles and their questions (with --json: an array of names)",
    )
    load = parser.add_argument_group("the load")
    load.add_argument("--users", type=_whole(1, USERS_MAX), metavar="N", help="concurrent senders")
    load.add_argument(
        "--rate", type=_number(0.01, RATE_MAX), metavar="N", help="sends a second, of all users together"
    )
    load.add_argument(
        "--seconds", type=_number(SECONDS_MIN, SECONDS_MAX), metavar="N", help="how long; shapes scale to it"
    )
    load.add_argument(
        "--drain",
        type=_number(DRAIN_SECONDS_MIN, DRAIN_SECONDS_MAX),
        metavar="N",
        help=f"seconds without anything new after which what has not arrived is lost (default {DRAIN_SECONDS:g})",
    )
    load.add_argument("--size", type=_whole(0, SIZE_MAX), metavar="BYTES", help="of a message's body")
    load.add_argument(
        "--count", type=_whole(1, COUNT_MAX), metavar="N", help="how many groups (fan-out) or topics (topics)"
    )
    load.add_argument(
        "--host",
        type=_host,
        metavar="URL",
        help="a gateway that runs, as http://127.0.0.1:8080 (token: GANTRY_TOKEN)",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--headless", action="store_true", help="without Locust's own page while it runs")
    output.add_argument(
        "--json", action="store_true", help="the last line on stdout is JSON; implies --headless"
    )
    output.add_argument("--out", metavar="DIR", help="write report.html and report.json there")
    _add_limits(parser)
    many = parser.add_argument_group("one load from several machines")
    many.add_argument(
        "--master",
        type=_whole(1, WORKERS_MAX),
        metavar="N",
        help="wait for N workers, have them load, judge it all",
    )
    many.add_argument(
        "--worker", metavar="HOST[:PORT]", help="load as this master says; same profile and options as there"
    )
    return parser


def _add_limits(parser: _Parser) -> None:
    group = parser.add_argument_group("limits of the verdict")
    for one in fields(Limits):
        number = (
            _whole(0, 10**9)
            if isinstance(one.default, int) or one.name == "max_refused"
            else _number(0, 10**9)
        )
        default = f"default {one.default}" if one.default is not None else "default: none"
        group.add_argument(
            f"--{one.name.replace('_', '-')}",
            type=number,
            metavar="N",
            help=f"{_LIMITS[one.name]} ({default})",
        )


_LIMITS = {
    "max_lost": "acknowledged messages that never arrived",
    "max_duplicates": "messages that arrived again",
    "max_early": "delayed messages before their time",
    "max_disordered": "messages that overtook one of their own key",
    "max_failures": "requests that failed",
    "max_refused": "sends refused with 429",
    "max_p50_ms": "median of the profile's latency",
    "max_p99_ms": "99th percentile of the profile's latency",
    "min_rate": "requests answered a second",
}


def _listed(*, as_json: bool) -> str:
    if as_json:
        import json

        return json.dumps(list(PROFILES)) + "\n"
    return "".join(f"{name:<14} {entry.question}\n" for name, entry in PROFILES.items())


def _whole(low: int, high: int) -> Callable[[str], int]:
    def number(words: str) -> int:
        if (
            not words.removeprefix("-").isascii()
            or not words.removeprefix("-").isdigit()
            or not low <= int(words) <= high
        ):
            raise argparse.ArgumentTypeError(f"{words!r} is not a whole number from {low} to {high}")
        return int(words)

    return number


def _number(low: float, high: float) -> Callable[[str], float]:
    def number(words: str) -> float:
        try:
            value = float(words)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{words!r} is not a number from {low:g} to {high:.12g}")
        return value

    return number


def _host(words: str) -> str:
    whole = words if "://" in words else f"http://{words}"
    try:
        parts = urlsplit(whole)
        bad = (
            parts.scheme not in {"http", "https"}
            or not parts.hostname
            or parts.port == 0
            or parts.path.strip("/")
        )
    except ValueError:
        bad = True
    if bad:
        raise argparse.ArgumentTypeError(f"{words!r} is not the address of a gateway; write http://HOST:PORT")
    return whole.rstrip("/")


def _address(words: str | None) -> tuple[str, int]:
    if words is None:
        return "127.0.0.1", MASTER_PORT
    host, colon, port = words.rpartition(":")
    if not colon:
        return words, MASTER_PORT
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise Refused(f"argument --worker: {words!r} is not the address of a master; write HOST or HOST:PORT")
    return host, int(port)


def _folder(words: str | None) -> Path | None:
    if words is None:
        return None
    folder = Path(words).absolute()
    near = next(one for one in (folder, *folder.parents) if one.exists())
    if not words or not near.is_dir() or not os.access(near, os.W_OK):
        raise Refused(f"--out {words or 'is empty'}: not a folder that can be written")
    return folder
