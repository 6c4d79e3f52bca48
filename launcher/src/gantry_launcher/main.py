"""Which command was typed."""

import sys

from gantry_launcher.errors import EXIT_REFUSED, Refused
from gantry_launcher.options import USAGE, parse_data, parse_up

INTERRUPTED = 130


def main(words: list[str]) -> int:
    """Run one command line and return its exit status."""
    try:
        return _run(words)
    except Refused as refused:
        sys.stderr.write(f"gantry: {refused}\n")
        return EXIT_REFUSED
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(words: list[str]) -> int:  # each command imports only what it needs: `status` answers at once
    command, *rest = words or ["help"]
    if command in {"help", "-h", "--help"} or {"-h", "--help"} & set(rest[:1]):
        sys.stdout.write(USAGE)
        return 0
    if command == "up":
        from gantry_launcher.up import up

        return up(parse_up(rest))
    if command in {"status", "down"}:
        from gantry_launcher import status

        data, as_json = parse_data(command, rest)
        return status.down(data) if command == "down" else status.status(data, as_json=as_json)
    if command in {"check", "test"}:
        from gantry_launcher import quality

        return quality.test(rest) if command == "test" else quality.check()
    raise Refused(f"no such command: {command} (see ./gantry --help)")
