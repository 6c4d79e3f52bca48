"""What a replica serves while it follows: reads of what it has replayed, and the messages of its group. Everything else names the leader.

Where access control is on, it serves the messages of its group alone until it knows the users. So does one whose log has lost records, in that life.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker_store import ports
from broker_store.ports import Commands, Handler
from broker_store.process.following.reading import FollowerReading
from broker_store.process.group.follower_table import GroupTable
from broker_store.requests.command_table import CommandTable, Door
from broker_store.requests.request_classes import RequestClass
from gantry_link.serving.peer import Peer
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command

if TYPE_CHECKING:
    from broker_store.process.following.users import FollowedUsers

LOOK_SECONDS = 0.05
"""How soon held pulls are sent to a leader that lives again, and users count."""


class FollowerService:
    """The service of one life as a follower."""

    def __init__(
        self,
        reading: FollowerReading,
        users: "FollowedUsers | None",
        group_alone: GroupTable,
        everything: CommandTable,
        admit: Callable[[GroupTable | CommandTable], None],
        *,
        has_gaps: bool,
    ) -> None:
        """`users`: None where access control is off. `admit` lets the ports serve a table.

        With `has_gaps` it serves the group alone: its queues lack messages, and a consumer would pass over them.
        """
        self._reading, self._users = reading, users
        self._group_alone, self._everything, self._admit = group_alone, everything, admit
        self._is_reading, self._has_gaps = False, has_gaps
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Serve."""
        self._admit(self._group_alone)
        self._reading.start()
        self._looking = asyncio.ensure_future(self._look())

    def replayed(self) -> None:
        """Take that the replay has continued. Raises StartRefused for a user of a later version of this program."""
        if self._users is not None:
            self._users.replayed()
        self._reading.replayed()

    def closed(self, peer: Peer) -> None:
        """Handle a closed connection."""
        self._reading.closed(peer)

    async def close(self) -> None:
        """Serve the group alone, answer held pulls, and finish running requests."""
        self._admit(self._group_alone)
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        await self._reading.close()
        if self._users is not None:
            self._users.close()

    async def _look(self) -> None:
        while True:
            if self._users is not None:
                self._users.look()
            if not (self._is_reading or self._has_gaps) and (self._users is None or self._users.count):
                self._is_reading = True
                self._admit(self._everything)
            self._reading.pulls.look_for_leader()
            await asyncio.sleep(LOOK_SECONDS)


def reading_table(
    classes: dict[str, RequestClass], door: Door | None, commands: Commands, refusal: Callable[[], RefusedRequest]
) -> CommandTable:  # fmt: skip
    """Return the table of a replica that can be read. `refusal` answers whatever only a leader serves."""
    table = CommandTable(classes, None, door, lambda _code: refusal())
    table.add_all(commands)
    return table


def while_following(
    commands: Commands, leads: Callable[[], bool], refusal: Callable[[], RefusedRequest]
) -> Commands:
    """Return the reads of a follower. A replica that leads and does not serve yet refuses them: it replays what the set has not confirmed, too."""

    def guarded(handler: Handler) -> Handler:
        def handle(peer: ports.Peer, command: Command) -> bytes | None:
            if leads():
                raise refusal()
            return handler(peer, command)

        return handle

    return {code: (name, guarded(handler)) for code, (name, handler) in commands.items()}
