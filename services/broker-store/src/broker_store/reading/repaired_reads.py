"""Reads in a thread that run again once another replica's records have replaced the damaged ones that they met.

Wherever a reader leaves a damaged record out, its result is wrong though another replica has the record: a message counts as missing, a transaction as
rolled back. A store without replicas reads once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from broker_store.log.commit_log.met_damage import Noted, noting
from broker_store.log.errors import DamagedRecord
from broker_store.ports import InThread
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest

ASKED_MAX = 32
"""Records that one piece of work asks for at one time. What lies behind one comes with it, up to 1 MiB."""

Repaired = Callable[[int], Awaitable[bool]]
"""Replaces the damaged record at this position by that of another replica, within some seconds. False: no replica has it.

Raises RepairAwaited where a replica that may have it does not answer.
"""


class RepairAwaited(RefusedRequest):
    """A record is damaged here, and no replica that may have it answers. The same request can succeed later."""

    def __init__(self, position: int) -> None:
        super().__init__(
            ResponseCode.SERVICE_NOT_AVAILABLE,
            f"the record at position {position} is damaged here, and no other replica answers with it: try again",
            {"gantryCode": "REPAIR_AWAITED"},
        )


class RepairedReads:
    """Reads of one store. Without `repaired`, the reads of a store without replicas."""

    def __init__(self, run: InThread, repaired: Repaired | None) -> None:
        self._run, self._repaired = run, repaired

    @property
    def can_repair(self) -> bool:
        """Whether another replica may have what is damaged here."""
        return self._repaired is not None

    async def __call__(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run work that changes nothing. It waits for repairs, and runs again after them: it may stop at the first damaged record.

        Raises what the work raises, and RepairAwaited.
        """
        return (await self._ran(work, arguments, leaves_out=False)).outcome()

    async def leaving_out(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """As a call, for work that leaves a record out which no replica answers with."""
        return (await self._ran(work, arguments, leaves_out=True)).outcome()

    async def _ran(self, work: Callable[..., Any], arguments: tuple[Any, ...], *, leaves_out: bool) -> Noted:
        repaired = self._repaired
        if repaired is None:
            return Noted(await self._run(work, *arguments), None, set())
        tried: set[int] = set()
        while True:
            noted: Noted = await self._run(noting, work, *arguments)
            if isinstance(noted.error, DamagedRecord):
                noted.damaged.add(noted.error.position)
            new = sorted(noted.damaged - tried)
            tried.update(new)
            if not new or not await _repair(repaired, new, leaves_out=leaves_out):
                return noted


class RepairRequests:
    """Repairs for readers that may not wait: they refuse what depends on the record."""

    def __init__(self, repaired: Repaired) -> None:
        self._repaired = repaired
        self._running: dict[int, asyncio.Future[bool]] = {}
        self._lost: dict[int, None] = {}

    def may_come(self, position: int) -> bool:
        """Ask for a damaged record, and say whether another replica may have it."""
        if position in self._lost:
            return False
        if position not in self._running and len(self._running) < ASKED_MAX:
            task = self._running[position] = asyncio.ensure_future(self._repaired(position))
            task.add_done_callback(partial(self._ended, position))
        return True

    def _ended(self, position: int, task: "asyncio.Future[bool]") -> None:
        del self._running[position]
        if not task.cancelled() and task.exception() is None and not task.result():
            self._lost[position] = None
            if len(self._lost) > ASKED_MAX:
                del self._lost[next(iter(self._lost))]


async def _repair(repaired: Repaired, positions: list[int], *, leaves_out: bool) -> bool:
    """Return whether one of the records is whole now. Raises RepairAwaited, unless the caller leaves such records out."""
    answers: list[bool | BaseException] = []
    for at in range(0, len(positions), ASKED_MAX):
        asked = map(repaired, positions[at : at + ASKED_MAX])
        answers += await asyncio.gather(*asked, return_exceptions=True)
        if any(isinstance(answer, RepairAwaited) for answer in answers):
            break  # the others would be waited for as long
    for answer in answers:
        if isinstance(answer, BaseException) and not (leaves_out and isinstance(answer, RepairAwaited)):
            raise answer
    return True in answers
