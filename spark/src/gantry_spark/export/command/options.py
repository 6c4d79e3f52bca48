"""The command line of `./gantry export`. Standard library only: `--help` works before anything is installed."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NoReturn

from gantry_spark.export.command.instants import FORMS, parse_ms
from gantry_spark.export.failures import Refused

FORMATS: Final = ("parquet", "delta", "iceberg")
EVERY_SECONDS: Final = 60.0
COMPACT_MIB: Final = 256

_EPILOG: Final = """\
The table is partitioned by dt (the UTC day the store took a message) and broker, and has the columns of the message next to its
body. Run it again and it continues from the committed position; a run killed at any moment duplicates and loses no row.
Rows whose body does not fit --json-schema go to DIR_dlq with the reason. See docs/spark.md.

  ./gantry export --topic orders --to parquet --out exports/orders
  ./gantry export --topic orders --to iceberg --out exports/orders --json-schema orders.ddl --follow
  ./gantry export --compact --out exports/orders

Exit status: 0 done, 1 failed, 2 refused with one line that says why, 130 ended by Ctrl-C."""


@dataclass(frozen=True)
class ExportOptions:
    """The parsed options. Times are milliseconds since 1970; `topics` and `to` are empty only with `compact`."""

    out: Path
    topics: tuple[str, ...] = ()
    to: str = ""
    data: Path | None = None
    stores: tuple[str, ...] = ()
    http: dict[str, str] = field(default_factory=dict[str, str])
    replica: str = "leader"
    json_schema: Path | None = None
    prefix: str = ""
    from_ms: int | None = None
    to_ms: int | None = None
    follow: bool = False
    every_seconds: float = EVERY_SECONDS
    compact: bool = False
    compact_bytes: int = COMPACT_MIB << 20
    accept_loss: bool = False
    master: str = "local[*]"
    json: bool = False

    @property
    def places(self) -> list[str]:
        """The directories to read: stores, or a data directory with its stores."""
        return list(self.stores) or ([str(self.data)] if self.data is not None else [])


class _Parser(argparse.ArgumentParser):
    """argparse, but an error is one line, not a page."""

    def error(self, message: str) -> NoReturn:
        """Refuse in one line."""
        raise Refused(f"{message} (see ./gantry export --help)")


def parse(words: Sequence[str], now: datetime | None = None) -> ExportOptions:
    """Return the options, or raise Refused. `--help` prints and raises SystemExit."""
    given = vars(_parser(now or datetime.now(UTC)).parse_args(_joined(words)))
    if not given["out"]:
        raise Refused("name the folder of the table: --out DIR")
    given["topics"] = tuple(dict.fromkeys(given["topics"]))
    given["stores"], given["http"] = tuple(given["stores"]), _by_broker(given["http"])
    given["out"] = Path(given["out"]).absolute()
    given["data"] = Path(given["data"]).absolute() if given["data"] else None
    given["compact_bytes"] <<= 20
    options = ExportOptions(**given)
    _check(options)
    return options


def _joined(words: Sequence[str]) -> list[str]:
    """Bind times to their options: argparse takes a separate `-10m` for an option."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in {"--from-time", "--to-time"}:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _check(options: ExportOptions) -> None:
    if options.compact:
        if options.topics or options.to or options.follow or options.json_schema:
            raise Refused("--compact takes only --out: the content of the table is written there")
        return
    if not options.topics or not options.to:
        raise Refused("name what to export and as what: --topic T --to parquet|delta|iceberg --out DIR")
    if not options.places:
        raise Refused("name the log's place: --data DIR of a system, or --store DIR of each store")
    if options.prefix and not options.json_schema:
        raise Refused("--prefix goes before the columns of --json-schema, which is not given")
    if options.from_ms is not None and options.to_ms is not None and options.from_ms >= options.to_ms:
        raise Refused("--from-time is not before --to-time: the range is empty")


def _parser(now: datetime) -> _Parser:
    parser = _Parser(
        prog="./gantry export", allow_abbrev=False, epilog=_EPILOG,
        description="Exports topics as a table, every message once. Reads the stores' logs, running or stopped.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    _add_places(parser)
    _add_contents(parser, _instant(now))
    _add_ways(parser)
    return parser


def _add_places(parser: _Parser) -> None:
    add = parser.add_argument
    add("--topic", dest="topics", action="append", default=[], metavar="T", help="a topic; may be repeated")
    add("--to", choices=FORMATS, default="", help="the kind of table")
    add("--out", default="", metavar="DIR", help="the table's folder; created if it does not exist")
    add("--data", metavar="DIR", help="data directory of ./gantry up (default ./data of the checkout)")
    words = "a store's directory instead, as DIR or BROKER=DIR; may be repeated"
    add("--store", dest="stores", action="append", default=[], metavar="DIR", help=words)
    words = "address of a running store's HTTP port, if no launcher of this machine knows it; may be repeated, also for each replica"
    add("--http", action="append", default=[], type=_address, metavar="BROKER=URL", help=words)
    words = "which replica of a broker is read: leader (default), follower, or a name"
    add("--replica", default="leader", metavar="R", help=words)


def _add_contents(parser: _Parser, instant: Callable[[str], int]) -> None:
    add = parser.add_argument
    words = "bodies are JSON: typed columns by a Spark DDL, a StructType as JSON, or a JSON Schema"
    add("--json-schema", type=Path, metavar="FILE", help=words)
    add("--prefix", default="", metavar="TEXT", help="prefix of the names of those columns")
    words = f"only messages stored at or after T: {FORMS}"
    add("--from-time", dest="from_ms", type=instant, metavar="T", help=words)
    add("--to-time", dest="to_ms", type=instant, metavar="T", help="only messages stored before T")


def _add_ways(parser: _Parser) -> None:
    add = parser.add_argument
    add("--follow", action="store_true", help="run repeatedly until Ctrl-C")
    words = "seconds between the runs of --follow (default 60)"
    add(
        "--every",
        dest="every_seconds",
        type=_number(1, 86_400),
        default=EVERY_SECONDS,
        metavar="S",
        help=words,
    )
    add("--compact", action="store_true", help="instead: merge the small files of the table in DIR")
    words = f"size of a merged file (default {COMPACT_MIB})"
    add(
        "--compact-mib",
        dest="compact_bytes",
        type=_number(1, 4096, int),
        default=COMPACT_MIB,
        metavar="N",
        help=words,
    )
    words = "continue if the log was deleted, cut or replaced since the last run, and report what is missing"
    add("--accept-loss", action="store_true", help=words)
    add("--master", default="local[*]", metavar="URL", help="Spark's master (default local[*]: this machine)")
    add("--json", action="store_true", help="print one JSON line per run on stdout")


def _by_broker(addresses: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the addresses of each broker; several are those of its replicas."""
    found: dict[str, str] = {}
    for broker, url in addresses:
        found[broker] = f"{found[broker]}|{url}" if broker in found else url
    return found


def _address(words: str) -> tuple[str, str]:
    broker, _, url = words.partition("=")
    if not broker or not url.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{words!r} is not like broker-a=http://127.0.0.1:10913")
    return broker, url


def _instant(now: datetime) -> Callable[[str], int]:
    def instant(words: str) -> int:
        try:
            return parse_ms(words, now)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return instant


def _number(low: float, high: float, kind: Callable[[str], float] = float) -> Callable[[str], float]:
    def number(words: str) -> float:
        try:
            value = kind(words)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{words!r} is not a number from {low} to {high}")
        return value

    return number
