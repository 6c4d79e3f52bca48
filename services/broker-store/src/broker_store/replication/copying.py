"""Clears the directory of a replica whose log is void, before anything of it is opened.

A learner whose next bytes its leader has deleted gives up its log (`Kept.is_void`), and its process ends. The next start clears the directory: what
stays is what the replica promised, and what belongs to the machine. Then it is a new directory, whose log begins at `Kept.begin`, and
shipping copies the log from there: whole records with their checks, throttled, and continued after a crash from what is durable.
Derived states come from the log alone, as in a rebuild: retention appends again what must not go with a segment.

A crash while it clears leaves the log void: the next start begins again. Nothing old and new is ever together.
"""

from dataclasses import replace

from broker_store.log.files.files import Files
from broker_store.log.settings import RESERVE_FILE
from broker_store.replication import kept_file
from broker_store.replication.kept_file import KeptFile

DERIVED = "consumequeue", "index", "config", "gantry/keys", "gantry/units", "gantry/snapshots"
"""Directories of what is derived from the log: `config/*.json` are copies of what it says."""
DIRECTORIES = ("commitlog", *DERIVED)
STAYS = frozenset({kept_file.NAME, RESERVE_FILE, "gantry/boots", "gantry/clock.json"})
"""Promises, the ballast, how often this directory was started, and its clock."""


def clear_void(files: Files, store_directory: str, kept: KeptFile) -> bool:
    """Clear the directory if its log is void. Returns whether it was. Raises OSError; call again at the next start.

    Call it with the lock of the directory, before its checkpoint, log and configuration are read.
    """
    if not kept.kept.is_void:
        return False
    for name in DIRECTORIES:
        files.remove_dir(f"{store_directory}/{name}")
    for name in ("abort", "checkpoint"):
        files.remove(f"{store_directory}/{name}")
    for name in files.listdir(f"{store_directory}/gantry"):
        if f"gantry/{name}" not in STAYS:
            files.remove(f"{store_directory}/gantry/{name}")
    files.sync_dir(f"{store_directory}/gantry")
    files.sync_dir(store_directory)
    kept.write(replace(kept.kept, is_void=False))
    return True
