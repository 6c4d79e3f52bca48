"""One simulated process: started, stopped, killed, paused, started again."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace

from gantry_chassis.machine.environment import Environment
from gantry_chassis.process import Life, live
from gantry_chassis.start_refusal import StartRefused
from gantry_simulation.network.network import Network
from gantry_simulation.network.process_sockets import ProcessSockets
from gantry_simulation.processes.environment import simulated_environment
from gantry_simulation.processes.machine import Machine
from gantry_simulation.processes.threads import Pace, SimulatedWorkers
from gantry_simulation.world.process_loop import ProcessLoop
from gantry_simulation.world.world import World

DEFAULT_THREADS = 5
FIRST_PROCESS_ID = 1_000

Main = Callable[[Life], Awaitable[None]]


class Process:
    """Runs a `main` of the product, as `gantry_chassis.process.run` does, in one life after the other."""

    def __init__(
        self,
        world: World,
        network: Network,
        name: str,
        address: str,
        pace: Pace | None = None,
        *,
        beside: Process | None = None,
    ) -> None:
        """Put a process on a new machine with this address, or on the machine of `beside`. `name` is unique in the World."""
        self.name, self.address = name, address
        self.machine = Machine(world, network, name, address) if beside is None else beside.machine
        assert self.machine.address == address, f"{name} is on {self.machine.address}"
        self.machine.processes.append(self)
        self.clocks, self.host = self.machine.clocks, self.machine.host
        self.lives: int = 0
        self.is_paused: bool = False
        self.refusal: str = ""
        """Why the last start was refused."""
        self.pace: Pace = replace(pace or Pace())
        """That of its threads. It may change at any time."""
        self._world, self._network = world, network
        self._loop: ProcessLoop | None = None
        self._sockets: ProcessSockets | None = None
        self._is_stopping = False

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither returned nor died since."""
        return self._loop is not None

    def rng(self, subject: str) -> random.Random:
        """Return the random numbers of a subject in the present life."""
        return self._world.rng(f"{subject} of {self.name} in life {self.lives}")

    def violate(self, what: str) -> None:
        """Record a violation of this process."""
        self._world.violate(self.name, what)

    def start(self, main: Main) -> None:
        """Start it in the next event. An error that leaves `main` is a violation, StartRefused is `refusal`."""
        assert self._loop is None, f"{self.name} runs"
        self.lives += 1
        self.is_paused = self._is_stopping = False
        self.refusal = ""
        world = self._world
        world.record(self.name, "start", self.lives)
        self.machine.power_on()
        sockets = self._sockets = ProcessSockets(self._network, self.host)
        loop = ProcessLoop(world, self.name, self.clocks, sockets, self._make_default_threads)
        self._loop = loop
        environment = simulated_environment(
            world,
            loop,
            self.clocks,
            sockets,
            self.pace,
            name=f"{self.name} in life {self.lives}",
            boot_id=f"boot {self.machine.boots} of {self.machine.name}",
            process_id=FIRST_PROCESS_ID + self.lives,
        )
        loop.deliver(self._begin, loop, main, environment)

    def deliver(self, callback: Callable[..., object], *arguments: object) -> None:
        """Call back in one of its turns, as on input that the simulation itself provides. Nothing happens when it does not run."""
        if self._loop is not None:
            self._loop.deliver(callback, *arguments)

    def stop(self) -> None:
        """Send SIGTERM: it drains and returns. Send it once per life; the second ends a real process, and would end the simulation."""
        self._is_stopping = True
        self._running.signal(signal.SIGTERM)

    def stop_once(self) -> bool:
        """Send SIGTERM unless it was sent in this life, or the process has not set its handler yet; False then."""
        if self._is_stopping or not self._running.handles(signal.SIGTERM):
            return False
        self.stop()
        return True

    def kill(self) -> None:
        """End it as SIGKILL does. Its kernel closes its connections."""
        loop = self._running
        self._world.record(self.name, "kill")
        self._loop = None
        loop.drop()
        self._network.process_died(self.host, self._sockets)

    def lose_power(self) -> None:
        """Switch its machine off. No peer hears of it; the next `start` switches the machine on."""
        assert self.is_running, f"{self.name} does not run"
        self.machine.lose_power()

    def power_lost(self) -> None:
        """End, if it runs. Its machine calls it."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.drop()

    def pause(self) -> None:
        """Let it run no turn until `resume`, as SIGSTOP does."""
        self._world.record(self.name, "pause")
        self.is_paused = True
        self._running.pause()

    def resume(self) -> None:
        """Let it run again."""
        self._world.record(self.name, "resume")
        self.is_paused = False
        self._running.resume()

    @property
    def _running(self) -> ProcessLoop:
        assert self._loop is not None, f"{self.name} does not run"
        return self._loop

    def _make_default_threads(self, loop: ProcessLoop) -> SimulatedWorkers:
        return SimulatedWorkers(self._world, loop, DEFAULT_THREADS, "default", self.pace)

    def _begin(self, loop: ProcessLoop, main: Main, environment: Environment) -> None:
        task = loop.create_task(live(main, environment), name=self.name)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, StartRefused):
            self.refusal = str(error)
        elif error is not None:
            self._world.violate(self.name, f"the process failed: {error!r}")
        self._world.record(self.name, "ended", self.refusal)
        loop = self._running
        self._loop = None
        loop.drop()
        self._network.process_died(self.host, self._sockets)
