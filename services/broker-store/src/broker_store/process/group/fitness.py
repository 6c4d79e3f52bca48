"""Whether a replica is fit to lead: its disk has room for sends, and its log has lost nothing. A leader that is not hands over.

A store that serves has its loop for the disk (`process/disk_care.py`). Before that nobody would know that the disk is full, and the reserve would be
missing when the replica leads.
"""

import asyncio
from collections.abc import Callable

from broker_store.log.commit_log.commit_log import LogState
from broker_store.log.space import Space
from broker_store.opening.opened_store import OpenedStore
from broker_store.process.group.gap_wait import GapWait
from broker_store.process.group.lost_records import LostRecords
from broker_store.process.group.settings import CannotMove
from broker_store.replication.shell import Shell
from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.environment import Workers

LOOK_SECONDS = 1.0
LED_MS_MIN = 10_000
"""A leader that is not fit leads at least for so long, so that the lead does not go round where all disks are nearly full."""

_log = get_logger()


class GroupFitness:
    """The fitness of one replica in one life."""

    def __init__(
        self,
        store: OpenedStore,
        lost: LostRecords,
        shell: Shell,
        thread: Workers,
        is_serving: Callable[[], bool],
        move: Callable[[str], None],
        gap_wait: GapWait,
        now_ms: Callable[[], int],
    ) -> None:
        """`move` lets another replica lead. `now_ms`: of the steady clock."""
        self._gap_wait = gap_wait
        self._log, self._shell, self._thread = store.log, shell, thread
        self._is_serving, self._move, self._now_ms = is_serving, move, now_ms
        self._space = Space(store.files, store.directory, store.log)
        self._lost = lost
        if lost.are_any:
            shell.fitness(is_fit=False)

    async def begin(self) -> None:
        """Check the disk before this replica takes part: a leader whose disk is full refuses the first send, too. Raises OSError."""
        await self._thread.run(self._space.check)
        await self.look()

    async def look(self) -> None:
        """Let the role know whether this replica is fit. Raises OSError."""
        self._shell.fitness(is_fit=await self._thread.run(self._is_fit))

    def _is_fit(self) -> bool:
        self._lost.settle()
        return not self._lost.are_any and self._space.has_room

    async def run(self) -> None:
        """Look about once a second, until the lead is handed over: that ends the process. Supervised."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                if not self._is_serving():
                    await self._thread.run(self._space.check)
                await self.look()
            except OSError as error:
                _log.warning("it is not known whether this replica is fit to lead", reason=str(error))
                continue
            if self._hand_over() or self._gap_wait.look(self._shell.role.leading, self._now_ms()):
                return

    def _hand_over(self) -> bool:
        """Let a fit member lead, once this leader is not. Where there is no such member, this one continues to serve."""
        leading = self._shell.role.leading
        is_unfit = self._lost.are_any or self._log.state is LogState.DISK_FULL
        if not (is_unfit and self._is_serving()) or leading is None or leading.has_resigned:
            return False
        successor = leading.fit_successor(self._now_ms())
        if not successor or self._now_ms() - leading.since < LED_MS_MIN:
            return False
        why = "this log has lost records" if self._lost.are_any else "the disk is full"
        _log.warning(f"{why}: another replica leads", replica=successor)
        try:
            self._move(successor)
        except CannotMove as error:
            _log.warning("the lead does not move", reason=str(error))
            return False
        return True
