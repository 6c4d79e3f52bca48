"""A program that loads as `./gantry load` does, but waits a moment for a master to answer, where Locust waits five each time."""

import sys

from locust import runners

from gantry_loadtest.__main__ import main
from gantry_loadtest.running import driver  # first: Locust replaces parts of the standard library

runners.CONNECT_TIMEOUT = 0.3
driver.JOIN_TRIES = 0

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
