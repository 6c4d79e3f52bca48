"""The Environment of a simulated process: clocks of its machine, random numbers of the seed, threads that are events."""

from __future__ import annotations

from typing import cast

from gantry_chassis.machine.addresses import ListeningSocket
from gantry_chassis.machine.environment import Environment, Step
from gantry_simulation.network.process_sockets import ProcessSockets
from gantry_simulation.processes.threads import Pace, SimulatedThread, SimulatedWorkers
from gantry_simulation.world.clocks import Clocks
from gantry_simulation.world.process_loop import ProcessLoop
from gantry_simulation.world.world import World


def simulated_environment(
    world: World,
    loop: ProcessLoop,
    clocks: Clocks,
    sockets: ProcessSockets,
    pace: Pace,
    *,
    name: str,
    boot_id: str,
    process_id: int,
) -> Environment:
    """Return the Environment of one life of a process. Each `name` has random numbers of its own."""

    def workers(count: int, threads: str) -> SimulatedWorkers:
        return SimulatedWorkers(world, loop, count, threads, pace)

    def make_thread(step: Step, threads: str) -> SimulatedThread:
        return SimulatedThread(world, loop, step, threads, pace)

    return Environment(
        wall_ns=clocks.wall_ns,
        steady=clocks.steady,
        since_boot=clocks.since_boot,
        boot_id=boot_id,
        rng=world.rng(f"rng of {name}"),
        secret_bytes=world.rng(f"secrets of {name}").randbytes,
        process_id=process_id,
        workers=workers,
        make_thread=make_thread,
        listening_socket=cast("ListeningSocket", sockets.listening_socket),
        reachable_address=sockets.reachable_address,
    )
