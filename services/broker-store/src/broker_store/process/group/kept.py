"""The promises of a replica, read before anything else of its directory is opened."""

from broker_store.log.files.files import Files
from broker_store.replication.copying import clear_void
from broker_store.replication.kept_file import NAME, KeptFile, KeptUnreadable
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.start_refusal import StartRefused

_log = get_logger()


def clear_directory(files: Files, directory: str) -> None:
    """Clear the directory of a replica whose log is void. Before anything of it is opened. Raises StartRefused, OSError."""
    kept = open_kept(files, directory)
    if clear_void(files, directory, kept):
        _log.warning(
            "the directory was cleared: this replica copies the log from its leader", begin=kept.kept.begin
        )


def open_kept(files: Files, directory: str) -> KeptFile:
    """Return the promises of a directory, none of a new one. Raises StartRefused where they cannot be read."""
    try:
        return KeptFile(files, directory)
    except KeptUnreadable as error:
        raise StartRefused(f"{directory}/{NAME} {error}") from error
