"""`python -m gantry.cli WORD …`."""

import sys

from gantry.cli import run

if __name__ == "__main__":
    sys.exit(run())
