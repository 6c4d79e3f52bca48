"""Dispatches the command line. Each command imports only what it needs, so that `status` answers at once."""

import os
import sys
from collections.abc import Callable
from typing import NoReturn

from gantry_launcher.errors import Refused
from gantry_launcher.output.terminal import fill_standard_streams, write_out
from gantry_launcher.usage import ACCESS_WORDS, CLIENT_COMMANDS, COMPLETING, USAGE

INTERRUPTED = 130


def main(words: list[str]) -> int:
    """Run one command line and return its exit status."""
    fill_standard_streams()
    command, *rest = words or ["help"]
    try:
        if COMPLETING in os.environ:
            return _complete(words)
        is_own = command == "access" and rest and rest[0] in ACCESS_WORDS
        if is_own or command in CLIENT_COMMANDS:
            return _access(rest) if is_own else _client(words)
        if command in {"help", "-h", "--help"} or (
            command not in WITH_OWN_HELP and {"-h", "--help"} & set(rest[:1])
        ):
            write_out(USAGE)
            return 0
        if command not in COMMANDS:
            raise Refused(f"no such command: {command}{_meant(command)} (see ./gantry --help)")
        return COMMANDS[command](rest)
    except Refused as refused:
        sys.stderr.write(f"gantry: {refused}\n")
        return refused.exit_status
    except KeyboardInterrupt:
        return INTERRUPTED


def _up(words: list[str]) -> int:
    from gantry_launcher.commands.up import up
    from gantry_launcher.options import parse_up

    return up(parse_up(words))


def _status(words: list[str]) -> int:
    from gantry_launcher.commands.status import status
    from gantry_launcher.options import parse_data

    data, as_json = parse_data("status", words)
    return status(data, as_json=as_json)


def _down(words: list[str]) -> int:
    from gantry_launcher.commands.status import down
    from gantry_launcher.options import parse_data

    return down(parse_data("down", words)[0])


def _restart(words: list[str]) -> int:
    from gantry_launcher.commands.restart import restart
    from gantry_launcher.options import parse_restart

    return restart(parse_restart(words))


def _test(words: list[str]) -> int:
    from gantry_launcher.commands.quality import test

    return test(words)


def _check(words: list[str]) -> int:
    from gantry_launcher.commands.quality import check

    _refuse_words("check", words)
    return check()


def _demo(words: list[str]) -> int:
    from gantry_launcher.demo.demo import demo
    from gantry_launcher.options import parse_demo

    return demo(parse_demo(words))


def _bench(words: list[str]) -> int:
    from gantry_launcher.commands.bench import bench

    return bench(words)


def _report(words: list[str]) -> NoReturn:
    from gantry_launcher.commands.spark import spark

    spark("report", words)


def _export(words: list[str]) -> NoReturn:
    from gantry_launcher.commands.spark import spark

    spark("export", words)


def _load(words: list[str]) -> int:
    from gantry_launcher.commands.load import load

    return load(words)


def _simulate(words: list[str]) -> NoReturn:
    from gantry_launcher.commands.simulate import simulate

    simulate(words)


def _replicas(words: list[str]) -> int:
    from gantry_launcher.commands.replicas import replicas

    return replicas(words)


def _access(words: list[str]) -> int:
    from gantry_launcher.commands.access import access

    return access(words)


def _complete(words: list[str]) -> int:
    from gantry_launcher.commands.completing import complete
    from gantry_launcher.install import RUN_LOCK, is_ready

    answer = complete(os.environ)
    if answer is not None:
        text, status = answer
        write_out(text)
        return status
    return _client(words) if is_ready(RUN_LOCK) else 1  # completion installs nothing


def _client(words: list[str]) -> int:
    from gantry_launcher.commands.client import client

    return client(words)


def _meant(command: str) -> str:
    """Return a suggestion for an unknown command."""
    if command.startswith("-"):
        return ": the word comes first, its options after it"
    from difflib import get_close_matches

    near = get_close_matches(command, [*COMMANDS, *CLIENT_COMMANDS], n=2)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _refuse_words(command: str, words: list[str]) -> None:
    if words:
        raise Refused(f"{command} takes no arguments (see ./gantry --help)")


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "up": _up,
    "status": _status,
    "down": _down,
    "restart": _restart,
    "replicas": _replicas,
    "test": _test,
    "check": _check,
    "demo": _demo,
    "bench": _bench,
    "simulate": _simulate,
    "report": _report,
    "export": _export,
    "load": _load,
}
WITH_OWN_HELP = frozenset({"bench", "report", "export", "load", "simulate"})
"""Commands that answer --help themselves."""
