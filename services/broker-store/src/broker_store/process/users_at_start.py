"""The users of a store that begins to serve: those of its log, of the other stores, and of the files that the settings name."""

import asyncio
from typing import TYPE_CHECKING

from broker_store.requests.command_table import CommandTable
from broker_store.settings import Settings
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.start_refusal import StartRefused
from gantry_wire.errors import RefusedRequest

if TYPE_CHECKING:
    from broker_store.access.from_files import UserFiles
    from broker_store.process.parts.access_control import AccessControl

_log = get_logger()


def user_files(settings: Settings) -> "UserFiles | None":
    """Return the users that a start makes. Raises StartRefused for a file that cannot be read, and where nothing would check them."""
    paths = settings.access_initial_user_file, settings.plain_acl_file
    if not any(paths):
        return None
    if not settings.is_guarded:
        raise StartRefused(
            "access_initial_user_file and plain_acl_file name users, but access control is off: set access_key_file, "
            "which `./gantry access init` makes"
        )
    from broker_store.access.from_files import read_user_files

    return read_user_files(*paths)


def begin_users(control: "AccessControl", table: CommandTable) -> None:
    """Take the users of the log. Raises StartRefused."""
    from broker_store.process.parts.access_control import demand_rows

    demand_rows(table.codes())
    control.begin()


async def settle_users(control: "AccessControl", stopping: asyncio.Event, files: "UserFiles | None") -> None:
    """Let the users count, and store those of the files: after all that other stores know. Returns when the store shall stop."""
    from broker_store.access.from_files import add_users

    await control.settle(stopping.is_set)
    if stopping.is_set():
        return  # a first user that is made now would count everywhere, and others may have deleted it
    # Not longer than this process lives: the group of a replica that another leader replaced confirms nothing more.
    adding = asyncio.ensure_future(add_users(control.administration, files))
    stop = asyncio.ensure_future(stopping.wait())
    await asyncio.wait([adding, stop], return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if not adding.done():
        adding.cancel()
        return
    try:
        adding.result()
    except RefusedRequest as refusal:
        _log.error("the users of a file cannot be stored: a restart tries again", reason=refusal.remark)
