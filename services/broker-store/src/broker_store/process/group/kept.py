"""The promises of a replica, read before anything else of its directory is opened."""

from broker_store.log.files.files import Files
from broker_store.replication.copying import clear_void
from broker_store.replication.kept_file import NAME, KeptFile, KeptUnreadable
from broker_store.replication.lost_file import clear_derived
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.start_refusal import StartRefused

_log = get_logger()


def clear_directory(files: Files, directory: str) -> None:
    """Clear what a replica does not use any more: all of it where its log is void, what is derived from a log that was filled.

    Before anything of it is opened. Raises StartRefused, OSError.
    """
    kept = open_kept(files, directory)
    if clear_void(files, directory, kept):
        _log.warning(
            "the directory was cleared: this replica copies the log from its leader", begin=kept.kept.begin
        )
    if clear_derived(files, directory):
        _log.warning(
            "the log was filled: this start reads all of it, and makes queues, index and tables again"
        )


def open_kept(files: Files, directory: str) -> KeptFile:
    """Return the promises of a directory, none of a new one. Raises StartRefused where they cannot be read."""
    try:
        return KeptFile(files, directory)
    except KeptUnreadable as error:
        raise StartRefused(f"{directory}/{NAME} {error}") from error
