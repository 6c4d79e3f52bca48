"""The threads of a store in a test: a test can wait until they have done what they were given."""

import threading
from dataclasses import replace

from gantry_chassis.machine.environment import Environment, Workers

SETTLED_SECONDS = 5.0
"""A test may hold a thread for longer."""


class SettledThreads:
    """All workers of one store."""

    def __init__(self, environment: Environment) -> None:
        self._make = environment.workers
        self._made: list[Workers] = []
        self.environment = replace(environment, workers=self._workers)

    def settle(self) -> None:
        """Wait for the calls that were made, so that no thread writes into a disk that another store opens. Needs the running loop."""
        for workers in self._made:
            is_done = threading.Event()
            try:
                workers.run(is_done.set)
            except RuntimeError:  # they were closed
                continue
            is_done.wait(SETTLED_SECONDS)

    def _workers(self, count: int, name: str) -> Workers:
        workers = self._make(count, name)
        self._made.append(workers)
        return workers
