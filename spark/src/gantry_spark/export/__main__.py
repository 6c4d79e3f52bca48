"""`python -m gantry_spark.export`: the program behind `./gantry export`. Parses the options with the standard library alone."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from gantry_spark.export.command.options import ExportOptions, parse
from gantry_spark.export.command.progress import say, size_words
from gantry_spark.export.failures import Failed, Refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from gantry_spark.export.result import Result

DONE: Final = 0
FAILED: Final = 1
REFUSED: Final = 2
INTERRUPTED: Final = 130
TERMINATED: Final = 143


def main(words: Sequence[str]) -> int:
    """Run a command line and return its exit status."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(TERMINATED))
    try:
        options = parse(words)
        return _run_quietly(_compact if options.compact else _export, options)
    except Refused as refused:
        say(str(refused))
        return REFUSED
    except Failed as failed:
        say(str(failed))
        return FAILED
    except KeyboardInterrupt:
        say("ended; committed work stays, and the next run continues from there")
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - Spark wraps whatever went wrong in its tasks
        from gantry_spark.export.command.spark_errors import in_words

        say(in_words(error))
        return FAILED


def _run_quietly(work: Callable[[ExportOptions], int], options: ExportOptions) -> int:
    """Do the work while hiding Spark's own output, which is shown if one line does not explain a failure."""
    from gantry_spark.spark.quiet import Quiet

    with Quiet(Refused, Failed):
        try:
            return work(options)
        except Exception as error:
            from gantry_spark.export.command.spark_errors import foreseen

            if (known := foreseen(error)) is not None:
                raise known from error
            raise


def _compact(options: ExportOptions) -> int:
    from gantry_spark.export.committing import locked
    from gantry_spark.export.compacting import compact, open_existing

    open_existing(options.out)
    with locked(options.out):
        result = compact(options)
    if options.json:
        _print(result)
    return DONE


def _export(options: ExportOptions) -> int:
    say(f"exporting {', '.join(options.topics)} into {options.out} ({options.to})")
    from gantry_spark.export.committing import locked
    from gantry_spark.export.job import Export
    from gantry_spark.export.places import apart, left_as_found, prepare

    apart(options.out, options.data)
    with left_as_found(options.out):
        prepare(options.out)
        with locked(options.out), ExitStack() as ends:
            export = Export(options, _starter(options, ends))
            while True:
                result = export.run()
                _tell(options, result)
                if not options.follow:
                    return DONE
                time.sleep(options.every_seconds)


def _starter(options: ExportOptions, ends: ExitStack) -> Callable[[], SparkSession]:
    """Return a function that starts Spark once, and stops it at exit."""
    running: list[SparkSession] = []

    def start() -> SparkSession:
        if not running:
            say("starting Spark")
            from gantry_spark.export.starting import start

            running.append(start(options.master))
            ends.callback(running[0].stop)
        return running[0]

    return start


def _tell(options: ExportOptions, result: Result) -> None:
    words = (
        f"{result.rows} messages in {result.files} files, {size_words(result.bytes)}, {result.seconds:.1f} s"
    )
    if not result.rows and not result.dead_rows:
        words = "nothing new"
    if result.dead_rows:
        words += f"; {result.dead_rows} that could not be decoded are in {options.out}_dlq"
    if result.damaged:
        words += (
            f"; {result.damaged} damaged records of the log were left out, see {options.out}/_gantry/damaged"
        )
    if result.lost:
        lost = size_words(sum(one.stop - one.start for one in result.lost))
        words += f"; {lost} of the log were deleted before they were exported"
    say(words)
    if options.json:
        _print(result)


def _print(result: Result) -> None:
    sys.stdout.write(result.to_json() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
