"""What follows the end of a process: it starts again, and what its disk had lost counts as lost."""

from __future__ import annotations

from functools import partial

from gantry_simulation.lives.system import System
from gantry_simulation.processes.part import Part
from gantry_simulation.world.world import MS_NS

AGAIN_NS = 100 * MS_NS
"""How often a start looks whether the last life has ended."""
REFUSED_NS = 1_000 * MS_NS
"""A start that was refused is tried again after this time."""
READ = "pread"


def restart(system: System, member: Part, span_ms: int) -> None:
    """Start a member after a time, once its life of now has ended."""
    process, lives = member.process, member.process.lives

    def begin() -> None:
        if process.lives != lives:
            return  # another fault has restarted it
        if process.is_running:
            system.world.after(AGAIN_NS, begin)
        else:
            if process.name in system.stores:
                _after_failed_disk(system, process.name)
            member.start()
            system.history.add(process.name, "starts")
            system.world.after(REFUSED_NS, partial(_start_again, system, member, process.lives))

    system.world.after(span_ms * MS_NS, begin)


def _start_again(system: System, member: Part, lives: int) -> None:
    process = member.process
    if process.lives == lives and not process.is_running and process.refusal:
        system.history.add(process.name, f"was refused a start: {process.refusal}")
        restart(system, member, 0)


def restart_running(system: System, member: Part) -> None:
    """Stop a member by SIGTERM, as soon as it has its handler, and start it again."""
    process, lives = member.process, member.process.lives

    def stop() -> None:
        if process.lives != lives or not process.is_running:
            return
        if process.stop_once():
            restart(system, member, 0)
        else:
            system.world.after(AGAIN_NS, stop)

    stop()


def _after_failed_disk(system: System, name: str) -> None:
    """Take into account that the next life of a store reads what the device has, which may be less than what was written."""
    if name in system.has_failed_disk:
        system.lost_undurable(name)
        forget_failed_disk(system, name)


def forget_failed_disk(system: System, name: str) -> None:
    """Record that the next life of a store knows what its device has, unless an error still waits for its operation."""
    if not any(fault.count and fault.operation != READ for fault in system.stores[name].files.faults):
        system.has_failed_disk.discard(name)
