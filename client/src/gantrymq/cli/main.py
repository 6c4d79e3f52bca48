"""The command line: all its commands, and the one place where an error becomes a line and an exit status."""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer

import gantrymq
from gantrymq.cli.stops import DONE, FAILED, INTERRUPTED, WRONG_USE, Stop
from gantrymq.cli.wording import NAME, PROGRAM, as_started, plain

HELP = """Send, read and manage messages of a running Gantry system.

It uses the gateway's HTTP API: that of --http or GANTRY_HTTP, else of the system that ./gantry up started on --data (in a checkout: ./data), else http://127.0.0.1:8080.

Exit status: 0 done, 1 failed, 2 wrong use, 3 not found, 4 unreachable.
"""
EPILOG = """\b
Examples:
  gantrymq topic create orders
  gantrymq send orders 'one coffee' --tag counter --key o-1
  gantrymq tail orders -f
  gantrymq lag --watch
  gantrymq doctor
"""

OUTPUT_TAKES_NO_MORE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""The errors of a write to a full disk, or to a terminal that is gone."""
COMPLETING = "_GANTRY_COMPLETE"
"""Set by a shell that completes a command line."""
PARTS: dict[str, tuple[str, ...]] = {
    "sending": ("send",),
    "reading": ("pull", "tail"),
    "leasing": ("receive", "ack", "nack", "consume"),
    "topics": ("topic",),
    "groups": ("group",),
    "brokers": ("broker", "cluster"),
    "offsets": ("lag", "offsets"),
    "messages": ("message",),
    "dead_letters": ("dlq",),
    "schedules": ("schedule",),
    "transactions": ("txn",),
    "tasks": ("task",),
    "access": ("access",),
    "doctor": ("doctor",),
    "completion": ("completion",),
}
"""Modules and their commands: only the module of the given command is loaded, all of them for --help and completion."""


def make_app(word: str = "") -> typer.Typer:
    """Return the command line; with a command only the module that has it, if one does."""
    app = typer.Typer(
        help=HELP, epilog=as_started(EPILOG), rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=COMPLETING in os.environ,
        no_args_is_help=True, context_settings={"help_option_names": ["--help", "-h"]},
    )  # fmt: skip

    @app.callback()
    def everything(
        *,
        version: Annotated[
            bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
        ] = False,
    ) -> None:
        pass

    everything.__doc__ = HELP
    knowing = [part for part, words in PARTS.items() if word in words]
    for part in knowing or PARTS:
        import_module(f"gantrymq.cli.commands.{part}").add_to(app)
    return app


def _show_version(*, is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"gantrymq {gantrymq.__version__}")
        raise typer.Exit


def main(words: list[str], program: str = PROGRAM) -> int:
    """Run a command line; return its exit status."""
    app = make_app(words[0] if words and COMPLETING not in os.environ else "")
    if COMPLETING in os.environ:
        app(prog_name=program)  # answers the shell's completion and ends the process
    try:
        status: Any = typer.main.get_command(app).main(
            words or ["--help"], prog_name=program, standalone_mode=False
        )
    except Stop as stop:
        return _refused(stop.words, stop.status)
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        _drop_output()
        return DONE
    except OSError as error:
        if error.errno not in OUTPUT_TAKES_NO_MORE:
            raise
        _drop_output()
        return _refused(f"cannot write the output: {error.strerror}", FAILED)
    except Exception as error:
        words_of = getattr(error, "format_message", None)  # typer's refusals have one
        if words_of is None:
            raise
        return _refused(_one_line(words_of(), error), getattr(error, "exit_code", FAILED))
    return status if isinstance(status, int) else DONE


def _one_line(words: str, error: Exception) -> str:
    """Return typer's refusal in one line that names the help."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError" and context is not None:
        return f"{context.command_path}: a command is missing: {', '.join(context.command.commands)} (see {context.command_path} --help)"
    path = context.command_path if context is not None else PROGRAM
    what, colon, why = " ".join(words.split()).rstrip(".").partition(": ")
    words = what + colon + plain(why) if what != "Invalid value" else plain(why)
    return f"{words} (see {path} --help)"


def _drop_output() -> None:
    """Discard buffered output: the interpreter would try to write it at exit, and report the error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refused(words: str, status: int) -> int:
    sys.stderr.write(f"{NAME}: {as_started(words)}\n")
    return status if status != DONE else WRONG_USE
