"""What a store keeps of its clocks, so that the next start need not believe the wall clock: `gantry/clock.json`."""

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from broker_store.clocks.shifts import Shift
from broker_store.config.config_files import ConfigFile

_BOOT_FILE = Path("/proc/sys/kernel/random/boot_id")


class ClockNote(msgspec.Struct, rename="camel"):
    """Both clocks at one moment."""

    boot: str
    """Which run of the machine it was."""
    steady_ms: int
    """Milliseconds since the machine started."""
    store_ms: int
    """Store time."""
    wall_ms: int
    """The wall clock as far as it was believed."""
    is_known: bool
    """Whether the wall clock was believed in that run of the machine."""
    shifts: list[Shift] = []
    """The last one may lie ahead."""


def load_clock_note(file: ConfigFile) -> ClockNote | None:
    """Return what the last life of the store kept; None where there is nothing that can be read."""
    try:
        return msgspec.convert(file.load(), ClockNote)
    except msgspec.ValidationError:
        return None


def store_clock_note(file: ConfigFile, note: ClockNote) -> None:
    """Write it down; durable on return. Raises OSError."""
    file.store(
        {
            "boot": note.boot, "steadyMs": note.steady_ms, "storeMs": note.store_ms, "wallMs": note.wall_ms,
            "isKnown": note.is_known, "shifts": [list(shift) for shift in note.shifts],
        }
    )  # fmt: skip


def boot_name() -> str:
    """Return a name for this run of the machine, "" where the system has none."""
    try:
        return _BOOT_FILE.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def steady_clock() -> Callable[[], float]:
    """Return the clock that no step moves: seconds since the machine started, with the time it slept."""
    boot_time: int = time.CLOCK_BOOTTIME
    read = time.clock_gettime
    return lambda: read(boot_time)
