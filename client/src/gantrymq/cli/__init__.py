"""The `gantrymq` command: sends, reads and manages messages of a running system over the gateway's HTTP API. Only `doctor` uses remoting."""

import sys


def run() -> int:
    """Run the command line of this process and return its exit status: the entry point of an installed `gantrymq`."""
    try:
        from gantrymq.cli.main import main
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        sys.stderr.write(f"gantrymq: {error.name} is missing: pip install 'gantrymq[cli]'\n")
        return 1
    return main(sys.argv[1:])
