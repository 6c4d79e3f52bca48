"""`python -m gantry_spark.reports`: a report of running or stopped stores, as a page, JSON and Parquet in one folder.

Prints its first line before it imports anything large. Exit: 0 done, 1 failed, 2 impossible (one line says why), 130 interrupted.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from gantry_spark.reports.asked import NotPossible, levels_of, opener, sources_of, span_of
from gantry_spark.reports.progress import Progress
from gantry_spark.spark.quiet import Quiet

if TYPE_CHECKING:
    from gantry_spark.reports.facts import Engine
    from gantry_spark.reports.rounds import Made, Rounds
    from gantry_spark.reports.writing import Place

_Half = TypeVar("_Half")
DONE, FAILED, NOT_POSSIBLE, INTERRUPTED = 0, 1, 2, 130
FOLLOW_SECONDS: Final = 60.0
FOLDER: Final = "reports"
"""The default folder of reports: each in a folder named by its time, with an index page next to them."""
_OURS: Final = re.compile(r"^gantry_spark\.[\w.]+: (.+)$", re.MULTILINE)
_STAGES: Final = 9
_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A report ends before Java's second compiler and its parallel collector pay off: they took a third of its CPU time."""
_ABOUT: Final = """\
Reads the log of running or stopped stores, and writes a report: OUT/report.html (self-contained), OUT/report.json,
OUT/tables/*.parquet. Times are ISO 8601, by default UTC. See docs/reports.md.
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    words = argparse.ArgumentParser(
        "gantry report", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument(
        "--data", metavar="DIR", help="data directory of a system: all its stores (default: data)"
    )
    words.add_argument(
        "--store",
        metavar="DIR",
        nargs="+",
        action="extend",
        default=[],
        help="directory of a store, or NAME=DIR",
    )
    words.add_argument(
        "--http",
        metavar="BROKER=URL",
        nargs="+",
        action="extend",
        default=[],
        help="address of a running store's HTTP port, if no launcher of this machine knows it; also one for each replica",
    )
    words.add_argument(
        "--replica",
        metavar="R",
        default="leader",
        help="which replica of a broker is read: leader (default), follower, or a name",
    )
    words.add_argument("--snapshot", metavar="FILE", help="manifest of a snapshot, or a folder of them")
    words.add_argument(
        "--merge",
        metavar="REPORT",
        nargs="+",
        default=[],
        help="folders of reports whose roll-ups are combined",
    )
    words.add_argument(
        "--from", dest="since", metavar="TIME", help="only messages stored at this time or later"
    )
    words.add_argument("--to", dest="below", metavar="TIME", help="only messages stored before this time")
    words.add_argument(
        "--out", metavar="DIR", type=Path, help=f"folder of the report (default: {FOLDER}/<time>)"
    )
    words.add_argument(
        "--follow",
        action="store_true",
        help="repeat every minute, reading only new messages, until Ctrl-C",
    )
    words.add_argument(
        "--delay-levels",
        metavar="LIST",
        help="durations of delay levels, if they differ from RocketMQ's: '1s 5s 10s …'",
    )
    words.add_argument("--master", default="local[*]", help="Spark's master (default: this machine)")
    words.add_argument("--no-open", action="store_true", help="do not open the page in a browser")
    return words


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    asked = parser().parse_args(arguments)
    progress = Progress(_STAGES)
    progress.stage("checking the options")
    try:
        return _run(asked, progress)
    except NotPossible as error:
        progress.stream = sys.stderr
        progress.end()
        sys.stderr.write(f"gantry report: {error}\n")
        return NOT_POSSIBLE
    except KeyboardInterrupt:
        progress.stream = sys.stderr
        progress.end()
        sys.stderr.write("gantry report: interrupted\n")
        return INTERRUPTED


def _run(asked: argparse.Namespace, progress: Progress) -> int:
    span, levels = span_of(asked.since, asked.below), levels_of(asked.delay_levels)

    # pyarrow takes a while to import: only after the first output.
    from gantry_spark.reports.writing import NotWritable, Place

    out: Path = asked.out or Path(FOLDER) / f"{datetime.now(UTC):%Y-%m-%dT%H%M%SZ}"
    try:
        with Quiet(NotPossible, NotWritable), Place(out) as place:
            progress.stream = sys.stderr
            if asked.merge:
                return _merge(asked, progress, place)
            sources = sources_of(asked.data, asked.store, asked.snapshot, asked.http, asked.replica)
            sources.check()  # reports a missing store before Spark starts, which takes seconds
            progress.stage("starting Spark")
            from gantry_spark.reports.rounds import Rounds

            rounds = Rounds(_engine(asked.master), sources.take, span, levels, keep=asked.follow)
            return _report(asked, rounds, progress, place)
    except NotWritable as error:
        raise NotPossible(str(error)) from None


def _report(asked: argparse.Namespace, rounds: Rounds, progress: Progress, place: Place) -> int:
    began = time.monotonic()
    _publish(_made(rounds, progress), place, progress, opens=not asked.no_open)
    while asked.follow:
        try:
            time.sleep(max(0.0, began + FOLLOW_SECONDS - time.monotonic()))
            began, again = time.monotonic(), Progress(_STAGES - 2)
            _publish(_made(rounds, again), place, again, opens=False)
        except NotPossible as error:
            sys.stderr.write(
                f"gantry report: {error} (the next try in a minute)\n"
            )  # a store that restarts, say
        except KeyboardInterrupt:
            sys.stderr.write("gantry report: stopped; the report of the last round stays\n")
            break
    return DONE


def _merge(asked: argparse.Namespace, progress: Progress, place: Place) -> int:
    from gantry_spark.reports import merging

    rollups = merging.read([Path(folder) for folder in asked.merge])
    progress.stage("starting Spark")
    spark = _engine(asked.master).session()
    _publish(merging.merge(spark, rollups, progress), place, progress, opens=not asked.no_open)
    return DONE


def _made(rounds: Rounds, progress: Progress) -> Made:
    """Return the next report; a store's error becomes one line."""
    from gantry_spark.store.http import SnapshotRefused
    from gantry_spark.store.snapshot import NotAStore, StoreUnreadable

    try:
        return rounds.make(progress)
    except (NotAStore, StoreUnreadable, SnapshotRefused) as error:
        raise NotPossible(str(error)) from None
    except Exception as error:
        if ours := _OURS.findall(
            str(error)
        ):  # the error of our own code in one of Spark's processes, below its traceback
            raise NotPossible(ours[-1]) from None
        raise


def _publish(made: Made, place: Place, progress: Progress, *, opens: bool) -> None:
    from gantry_spark.render.page import render
    from gantry_spark.reports.index import write_index

    place.publish(render(made.report, made.sql), made.report, made.tables)
    index = write_index(place.out.parent, is_ours=place.out.parent.name == FOLDER)
    page = place.out / "report.html"
    progress.end()
    sys.stderr.write(f"gantry report: {made.report['check']['words']} Done in {progress.seconds:.0f} s\n")
    sys.stdout.write(f"{page}\n" + (f"{index}\n" if index else ""))
    sys.stdout.flush()
    if opens:
        opener(page)


def _engine(master: str) -> Engine:
    """Return Spark, not started yet."""
    from gantry_spark.reports.facts import Engine
    from gantry_spark.session import context, session
    from gantry_spark.spark import warehouse
    from gantry_spark.spark.jvm import NoJava

    quiet = files("gantry_spark.spark").joinpath("log4j2.properties")
    settings = {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{quiet} {_JAVA}",
        "spark.log.level": "ERROR",
        # Aggregates with sketches sort above this number of groups; ours have thousands, and each is small.
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",
        **warehouse.settings(),
    }

    def started(half: Callable[..., _Half]) -> _Half:
        try:
            return half("gantry report", master=master, settings=settings)
        except NoJava as error:
            raise NotPossible(str(error)) from None

    return Engine(lambda: started(context), lambda: started(session))


if __name__ == "__main__":
    sys.exit(main())
