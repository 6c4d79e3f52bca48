"""Opens the clock of a store, which continues from what the previous run saved."""

from broker_store.clocks.clock_note import load_clock_note
from broker_store.clocks.store_clock import StoreClock
from broker_store.config.config_files import ConfigFile
from broker_store.log.files.files import Files
from gantry_chassis.machine.environment import Environment


def clock_file(files: Files, directory: str) -> ConfigFile:
    """Return the file of a store's clock note."""
    return ConfigFile(files, f"{directory}/gantry/clock.json")


def open_clock(files: Files, directory: str, environment: Environment) -> StoreClock:
    """Return the clock of the store in a directory."""
    note = load_clock_note(clock_file(files, directory))
    return StoreClock(environment.wall, environment.since_boot, environment.boot_id, note)
