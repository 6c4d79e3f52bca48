"""A store without a network that keeps users and policies, over a simulated disk, moved by the test."""

import asyncio
from typing import Any

from sending_side import ScriptedPeer, SendingSide

from broker_store.access.asker import Asker
from broker_store.process.parts.access import Access
from broker_store.process.parts.access_control import AccessControl
from gantry_access.entries.entry import Entry
from gantry_access.entries.table import AccessTable
from gantry_access.model.users import UserType
from gantry_access.secrets.sealing import SealingKeys
from gantry_wire.bodies.fastjson import loads
from gantry_wire.frames.command import Command

KEYS = SealingKeys({"k1": b"1" * 32}, "k1")
ROOT = Asker("root", UserType.SUPER, "10.0.0.1")
CLERK = Asker("clerk", UserType.NORMAL, "10.0.0.2")


class AccessSide(SendingSide):
    """A store whose requests come from `asker`."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.asker = ROOT
        self.audited: list[tuple[Asker, Entry | None, Entry]] = []
        self.access_table = AccessTable(KEYS)
        self.control = AccessControl(
            self.around, self.store, self.sending, self.access_table, KEYS,
            lambda _peer, _command: self.asker, lambda *change: self.audited.append(change),
            lambda _connection: True,
        )  # fmt: skip
        self.control.begin()
        self.access = Access(self.around, self.store, self.sending, self.control)
        self.table.add_all(self.access.commands())
        self.client = ScriptedPeer()

    @property
    def entries(self) -> dict[tuple[str, str], bytes | None]:
        """Records by kind and name."""
        return {(entry.kind.value, entry.name): entry.record for entry in self.store.states.access.entries()}

    async def asked(self, code: int, header: Any = None, body: bytes = b"") -> Command:
        """Send a request, flush what it writes, and return its answer."""
        opaque = self.ask(self.client, code, header, body)
        async with asyncio.timeout(30):
            while (answer := self.answer_to(opaque)) is None:
                await asyncio.sleep(0)
                self.flush()
        return answer

    async def done(self, code: int, header: Any = None, body: Any = b"") -> Any:
        """Send a request that succeeds. Returns its body as JSON, None for none."""
        answer = await self.asked(code, header, body)
        assert answer.code == 0, answer.remark
        return loads(answer.body) if answer.body else None

    async def refused(self, code: int, header: Any = None, body: Any = b"") -> tuple[int, str]:
        """Send a request that is refused. Returns code and remark."""
        answer = await self.asked(code, header, body)
        assert answer.code != 0
        return answer.code, answer.remark or ""

    def answer_to(self, opaque: int) -> Command | None:
        """Return the answer, None if there is none yet."""
        return next((answer for answer in self.client.answers if answer.opaque == opaque), None)

    async def finish(self, work: Any) -> Any:
        """Await work whose records the test flushes."""
        task = asyncio.ensure_future(work)
        async with asyncio.timeout(30):
            while not task.done():
                await asyncio.sleep(0)
                self.flush()
        return task.result()
