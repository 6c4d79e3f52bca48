"""Asks the register what a role orders, and answers with an input of the role: always one, within a time.

What the register cannot answer now is `RegisterLost`, and so is what it may not answer: an unusable register, or one that has lost records. Then a
leader continues with the set it has, and nobody campaigns. `fault` says why, for operators.
"""

import asyncio
from collections.abc import Awaitable, Callable

from broker_store.replication.register.port import (
    Outcome,
    Refused,
    Register,
    RegisterAway,
    RegisterBehind,
    RegisterUnusable,
    Written,
)
from broker_store.replication.steps import (
    ReadRegister,
    RegisterAnswer,
    RegisterLost,
    RegisterRead,
    RegisterRefused,
    RegisterWritten,
    WriteRegister,
)  # fmt: skip

Answered = Callable[[RegisterAnswer], None]


class RegisterCalls:
    """The calls of one role. It has one operation under way; an older one may still end."""

    def __init__(
        self, register: Register, on_answer: Answered, seconds_max: float, *, may_bootstrap: bool
    ) -> None:
        """Take the seconds after which an operation counts as lost. `may_bootstrap`: the replica may make the first record of an empty register."""
        self._register, self._on_answer, self._seconds_max = register, on_answer, seconds_max
        self._may_bootstrap = may_bootstrap
        self._tasks: set[asyncio.Task[None]] = set()
        self.fault = ""
        """Why the last operation had no answer; empty after an answer."""

    def read(self, order: ReadRegister) -> None:
        """Read the newest record."""
        self._begin(order.operation, self._read(order.operation))

    def write(self, order: WriteRegister) -> None:
        """Write a record, once, however often the order is repeated."""
        self._begin(order.operation, self._write(order))

    async def close(self) -> None:
        """Give up what is under way, without an answer. A write may still take effect."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _begin(self, operation: int, call: Awaitable[RegisterAnswer]) -> None:
        task = asyncio.ensure_future(self._run(operation, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, operation: int, call: Awaitable[RegisterAnswer]) -> None:
        fault = ""
        answer: RegisterAnswer = RegisterLost(operation)
        try:
            async with asyncio.timeout(self._seconds_max):
                answer = await call
        except TimeoutError:
            fault = f"the register did not answer within {self._seconds_max:g} s"
        except (RegisterAway, RegisterBehind, RegisterUnusable) as error:
            fault = str(error)
        self.fault = fault
        self._on_answer(answer)

    async def _read(self, operation: int) -> RegisterAnswer:
        try:
            return RegisterRead(operation, await self._register.read())
        except RegisterUnusable:
            if not self._may_bootstrap or self._register.known:
                raise
            return RegisterRead(operation, None)  # bootstrap refuses if there once was a record

    async def _write(self, order: WriteRegister) -> RegisterAnswer:
        record, operation = order.record, order.operation
        outcome: Outcome
        if record.version == 1:
            outcome = await self._register.bootstrap(record)
        else:
            outcome = await self._register.write(record.version - 1, record)
        if isinstance(outcome, Written):
            return RegisterWritten(operation)
        if isinstance(outcome, Refused):
            return RegisterRefused(operation, outcome.stands)
        raise RegisterAway(outcome.why)
