"""`python -m gantry.cli WORD …`."""

import sys

from gantry.cli.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
