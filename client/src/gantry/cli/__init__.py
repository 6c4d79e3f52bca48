"""The `gantry` command: everything people and programs ask of a running system, over the gateway's HTTP API. Never speaks remoting."""

import sys


def run() -> int:
    """Run the command line of this process and return its exit status: what an installed `gantry` calls."""
    try:
        from gantry.cli.main import main
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        sys.stderr.write(f"gantry: {error.name} is missing: pip install 'gantry-client[cli]'\n")
        return 1
    return main(sys.argv[1:])
