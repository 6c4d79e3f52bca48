"""The file that remembers, apart from the store's directory, that the register of its group was made (`ha_bootstrap_once`).

While it is missing, the store makes the register of a new group, as with `ha_bootstrap`. So this setting may stay as it is, where a supervisor
starts the store again and again with the same settings. A directory that belonged to a group never makes a register, whatever this file says: the file
matters where the directory and the register are lost together, and other replicas still have what was acknowledged.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from broker_store.log.files.files import Files
from broker_store.process.group.settings import GroupSettings, group_settings
from broker_store.settings import Settings
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Workers
from gantry_chassis.start_refusal import StartRefused

POLL_SECONDS = 0.25

_log = get_logger()


class RegisterNote:
    """The file of one store."""

    def __init__(self, files: Files, path: str, store_directory: Path) -> None:
        """Take its path. Raises StartRefused where it could not be written, or would be lost with the store's directory."""
        file = Path(path).absolute()
        if store_directory.absolute() in file.parents:
            raise StartRefused(
                f"ha_bootstrap_once={path} lies in store_dir, and must not be lost with it: name a file elsewhere"
            )
        if not files.exists(str(file.parent)):
            raise StartRefused(f"ha_bootstrap_once={path}: there is no folder {file.parent}")
        self._files, self._path = files, str(file)
        self.may_bootstrap: bool = not files.exists(self._path)
        """Whether no store has made the register with this file."""

    async def keep(self, is_known: Callable[[], bool], thread: Workers) -> None:
        """Write the file once the store knows the register of its group. Supervised: an OSError is tried again."""
        while True:
            if is_known():
                break
            await asyncio.sleep(POLL_SECONDS)
        await thread.run(self._write)
        _log.info("the register of the group is made, and this file remembers it", path=self._path)

    def _write(self) -> None:
        self._files.replace_atomically(
            self._path,
            b"The register of this broker was made. While this file exists, no store makes another one.\n",
        )


def group_and_note(settings: Settings, files: Files) -> tuple[GroupSettings | None, RegisterNote | None]:
    """Return the settings of the store's group, and the file if it is still to be written: then the store may make the register.

    Raises StartRefused.
    """
    group = group_settings(settings)
    if group is None or not settings.ha_bootstrap_once:
        return group, None
    note = RegisterNote(files, settings.ha_bootstrap_once, settings.store_dir)
    return (replace(group, may_bootstrap=True), note) if note.may_bootstrap else (group, None)
