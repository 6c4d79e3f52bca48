"""`python -m gantrymq.cli WORD …`."""

import sys

from gantrymq.cli import run

if __name__ == "__main__":
    sys.exit(run())
