"""The saved state of a store's clocks, so that the next start need not trust the wall clock: `gantry/clock.json`."""

import msgspec

from broker_store.clocks.shifts import Shift
from broker_store.config.config_files import ConfigFile


class ClockNote(msgspec.Struct, rename="camel"):
    """Both clocks at one moment."""

    boot: str
    """Identifies the run of the machine."""
    steady_ms: int
    """Milliseconds since the machine started."""
    store_ms: int
    """Store time."""
    wall_ms: int
    """The wall clock as far as it was trusted."""
    is_known: bool
    """Whether the wall clock was trusted in that run of the machine."""
    shifts: list[Shift] = []
    """The last one may be in the future."""
    unknown_from_ms: int = 0
    """Store time since which the machine has not trusted its wall clock, 0 if `is_known`."""


def load_clock_note(file: ConfigFile) -> ClockNote | None:
    """Return what the previous run of the store saved, None where it cannot be read."""
    try:
        return msgspec.convert(file.load(), ClockNote)
    except msgspec.ValidationError:
        return None


def store_clock_note(file: ConfigFile, note: ClockNote) -> None:
    """Save it. Durable on return. Raises OSError."""
    file.store(
        {
            "boot": note.boot, "steadyMs": note.steady_ms, "storeMs": note.store_ms, "wallMs": note.wall_ms,
            "isKnown": note.is_known, "unknownFromMs": note.unknown_from_ms,
            "shifts": [list(shift if shift.from_ms else shift[:2]) for shift in note.shifts],
        }
    )  # fmt: skip
