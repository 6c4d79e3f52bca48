"""Room for sends on the disks of a group: a follower looks after its own as a leader does, and a leader whose disk is full hands over.

A store that serves has its loop for this (`process/disk_care.py`). Before that nobody would know that the disk is full, and the reserve would be missing
when the replica leads.
"""

import asyncio
from collections.abc import Callable

from broker_store.log.commit_log.commit_log import LogState
from broker_store.log.space import Space
from broker_store.opening.opened_store import OpenedStore
from broker_store.process.group.settings import CannotMove
from broker_store.replication.shell import Shell
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Workers

ROOM_SECONDS = 1.0
LED_MS_MIN = 10_000
"""A leader whose disk is full leads at least for so long, so that the lead does not go round where all disks are nearly full."""

_log = get_logger()


class GroupRoom:
    """The room of one replica in one life."""

    def __init__(
        self,
        store: OpenedStore,
        shell: Shell,
        thread: Workers,
        is_serving: Callable[[], bool],
        move: Callable[[str], None],
        now_ms: Callable[[], int],
    ) -> None:
        """`move` lets another replica lead. `now_ms`: of the steady clock."""
        self._log, self._shell, self._thread = store.log, shell, thread
        self._is_serving, self._move, self._now_ms = is_serving, move, now_ms
        self._space = Space(store.files, store.directory, store.log)

    async def look(self) -> None:
        """Let the role know whether there is room. Raises OSError."""
        self._shell.room(has_room=await self._thread.run(lambda: self._space.has_room))

    async def run(self) -> None:
        """Check the disk about once a second, until the lead is handed over: that ends the process. Supervised."""
        while True:
            await asyncio.sleep(ROOM_SECONDS)
            try:
                if not self._is_serving():
                    await self._thread.run(self._space.check)
                await self.look()
            except OSError as error:
                _log.warning("the room of the disk is not known", reason=str(error))
                continue
            if self._hand_over():
                return

    def _hand_over(self) -> bool:
        """Let a member lead that has room, once this leader has none. Where there is no such member, this one continues to serve reads."""
        leading = self._shell.role.leading
        is_full = self._log.state is LogState.DISK_FULL and self._is_serving()
        if not is_full or leading is None or leading.has_resigned:
            return False
        successor = leading.successor_with_room
        if not successor or self._now_ms() - leading.since < LED_MS_MIN:
            return False
        _log.warning("the disk is full: another replica with room leads", replica=successor)
        try:
            self._move(successor)
        except CannotMove as error:
            _log.warning("the lead does not move", reason=str(error))
            return False
        return True
