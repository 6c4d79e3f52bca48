"""A supervisor whose loop and clock the test moves, so that no process is judged by how busy the machine is."""

import time
from collections.abc import Callable, Collection

from gantry_launcher.processes.child import Child
from gantry_launcher.processes.supervisor import Supervisor


class Stepped:
    """Runs the turns of a supervisor, which must read the time from `clock`."""

    def __init__(self, log: Callable[[], str]) -> None:
        self.now = 1000.0
        self._log = log
        self.supervisor: Supervisor

    def clock(self) -> float:
        return self.now

    def turn_until(self, condition: Callable[[], bool], step: float = 0.0) -> None:
        """Run turns until the condition is true; each is `step` seconds later on the supervisor's clock."""
        end = time.monotonic() + 90
        while not condition():
            assert time.monotonic() < end, f"it did not happen\n{self._log()}"
            self.now += step
            self.supervisor._next_poll = 0.0  # the polls of a start need no time to pass
            self.supervisor._turn()

    def turn_for(self, seconds: float, but: Collection[Child] = ()) -> None:
        """Let time pass for processes that answer: the next second begins when all `but` these have answered the last question."""
        watches = [watch for child, watch in self.supervisor._watches.items() if child not in but]
        for _ in range(int(seconds)):
            self.now += 1
            self.supervisor._turn()
            self.turn_until(lambda: not any(watch._open for watch in watches))

    def end(self) -> None:
        """Stop all processes, on the real clock."""
        self.supervisor._steady = time.monotonic
        self.supervisor._stop_all()
        for one in (self.supervisor._signals_in, self.supervisor._signals_out, self.supervisor._selector):
            one.close()
