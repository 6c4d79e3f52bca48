"""The settings of consumer groups, as any broker has them. Read together, and kept for some seconds: clients ask for them again and again."""

import asyncio
from collections.abc import Callable
from typing import Final

from gateway.http.problems import Problem
from gateway.ports.stores import GroupSettings
from gateway.routing.fleet import Fleet

KEPT_SECONDS: Final = 5.0


class KnownGroups:
    """Every group of the cluster."""

    def __init__(self, fleet: Fleet, now: Callable[[], float]) -> None:
        """`now` is the steady clock in seconds."""
        self._fleet, self._now = fleet, now
        self._groups: dict[str, GroupSettings] = {}
        self._until = float("-inf")
        self._reading: asyncio.Future[None] | None = None

    async def get(self, group: str) -> GroupSettings | None:
        """Return the settings of a group; None if no broker has it.

        Those of the last reading, while no broker answers: a client must not stop because of that.
        """
        if self._now() >= self._until:
            if self._reading is None:
                self._reading = asyncio.ensure_future(self._read())
            await asyncio.shield(self._reading)
        return self._groups.get(group)

    async def _read(self) -> None:
        try:
            found, _missing = await self._fleet.each(lambda store: store.groups())
        except Problem:
            return
        finally:
            self._reading = None
        self._groups = {
            one.group: one for _broker, held in sorted(found.items(), reverse=True) for one in held
        }
        self._until = self._now() + KEPT_SECONDS
