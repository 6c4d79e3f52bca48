"""A real broker-store that is a replica of its broker group, with the supervisor that starts it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker_store.log.errors import LogError
from gantry_chassis.process import Life
from gantry_chassis.start_refusal import RestartNeeded, StartRefused
from gantry_simulation.parts.register import SimulatedRegister
from gantry_simulation.parts.store import PORT, Store
from gantry_simulation.processes.process import Process

OnEnd = Callable[["Replica", str], None]
"""Called while a life ends by itself, with the reason: a supervisor starts it again."""


class Replica(Store):
    """One store of a group."""

    def __init__(
        self,
        process: Process,
        members: Sequence[Process],
        register: SimulatedRegister,
        on_end: OnEnd,
        nameservers: str,
        **settings: Any,
    ) -> None:
        """`members`: the processes of all replicas, this one included. The first of them makes the register's first record."""
        replicas = ";".join(f"{member.name}={member.address}:{PORT}" for member in members)
        super().__init__(
            process, nameservers, open_register=register.opener(process.name), broker_name=register.records.group,
            replica=process.name, replicas=replicas, ha_bootstrap=process is members[0], **settings,
        )  # fmt: skip
        self._on_end = on_end
        self.may_fail: bool = False
        """Whether its disk may fail a life: an error that ends it is no violation."""

    async def _main(self, life: Life) -> None:
        try:
            await super()._main(life)
        except RestartNeeded as over:
            self._on_end(self, str(over))
        except (LogError, OSError) as error:
            if not self.may_fail:
                raise
            self._on_end(self, repr(error))
        except StartRefused as refused:
            if not self.may_fail:
                self.process.violate(f"the start is refused, or the life needs an operator: {refused}")
            raise
