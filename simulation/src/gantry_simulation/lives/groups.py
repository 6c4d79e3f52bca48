"""A broker group of a life: its replicas, their register, and what each of them decided. Finds what no group may do.

- An epoch has one leader, and a leader begins above everything that an earlier one acknowledged. So two leaders never acknowledge at
  one position.
- Once a leader has granted, none of an older epoch grants: queue locks, claims, receive leases.
- The boot count of a leader is higher than that of each leader before. Claims count from it.
- In the end the logs of all replicas are equal, and all are in the set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from broker_store.log.files.names import parse_file_name
from broker_store.opening.opening import Opening
from broker_store.process.group import grants
from broker_store.process.membership import Membership
from broker_store.replication.register.record import Registered
from gantry_simulation.lives.history import History
from gantry_simulation.parts.register import SimulatedRegister
from gantry_simulation.parts.replica import Replica
from gantry_simulation.parts.store import DIRECTORY
from gantry_simulation.world.process_loop import ProcessLoop
from gantry_simulation.world.world import World

LOG = f"{DIRECTORY}/commitlog"


class Group:
    """One group. `on_takeover` is called when a replica begins to lead."""

    def __init__(
        self,
        world: World,
        history: History,
        replicas: Mapping[str, Replica],
        register: SimulatedRegister,
        on_takeover: Callable[[], None],
    ) -> None:
        self.name: str = register.records.group
        self.replicas, self.register = replicas, register
        self._world, self._history, self._on_takeover = world, history, on_takeover
        self._members: dict[str, Membership] = {}
        """That of each replica's present life, or of its last one."""
        self._starts: dict[int, tuple[str, int]] = {}
        """Leader of each epoch, and where its log ended when it began."""
        self._leading: dict[Membership, int] = {}
        """Epoch of each life that led."""
        self._acknowledged: dict[int, int] = {}
        """Up to where each epoch acknowledged."""
        self._granted = 0
        """The newest epoch in which anything was granted."""
        self._boots: dict[int, int] = {}
        """Boot counts of leaders by their epochs."""
        self.struck: str = ""
        """The replica whose log has lost something in this life."""

    # --- what happens --------------------------------------------------------------------------------------

    def joins(self, member: Membership, _on_replayed: Callable[[], None]) -> None:
        """Take a new life of a replica."""
        self._members[member.settings.name] = member

    def leads(self, member: Membership, epoch: int, start: int) -> None:
        """Take that a replica begins to lead."""
        name = member.settings.name
        self._history.add(name, f"leads epoch {epoch} from {start} on")
        if epoch in self._starts:
            self._violate(name, f"leads epoch {epoch}, which {self._starts[epoch][0]} leads")
        self._starts[epoch], self._leading[member] = (name, start), epoch
        for earlier, up_to in self._acknowledged.items():
            if earlier < epoch and up_to > start:
                self._violate(
                    name, f"leads epoch {epoch} from {start} on; epoch {earlier} acknowledged {up_to}"
                )
        self._on_takeover()

    def acknowledged(self, member: Membership, up_to: int) -> None:
        """Take that a leader acknowledges everything below."""
        epoch, name = self._leading[member], member.settings.name
        self._acknowledged[epoch] = max(up_to, self._acknowledged.get(epoch, 0))
        for later, (leader, start) in self._starts.items():
            if later > epoch and up_to > start:
                self._violate(
                    name,
                    f"acknowledges {up_to} in epoch {epoch}; {leader} leads epoch {later} from {start} on",
                )

    def granted(self, name: str) -> None:
        """Take that a replica grants something."""
        epoch = self._leading.get(self._members[name], 0)
        if epoch < self._granted:
            self._violate(name, f"grants in epoch {epoch}, after a grant in epoch {self._granted}")
        self._granted = max(epoch, self._granted)

    def completed(self, name: str, boots: int) -> None:
        """Take the boot count of a leader that begins to serve."""
        epoch = self._leading[self._members[name]]
        for other, had in self._boots.items():
            if (had < boots) != (other < epoch):
                self._violate(
                    name, f"serves epoch {epoch} with the boot count {boots}, epoch {other} has {had}"
                )
        self._boots[epoch] = boots

    def _violate(self, name: str, what: str) -> None:
        self._world.violate(name, what)

    # --- how it is -----------------------------------------------------------------------------------------

    @property
    def leader(self) -> Replica | None:
        """The replica that began to lead last; None before the first one."""
        return self.replicas[self._starts[max(self._starts)][0]] if self._starts else None

    @property
    def leading(self) -> Replica | None:
        """The replica that leads in its present life. One that led before a crash follows, and may lack what it had shown."""
        leader = self.leader
        is_leading = leader is not None and self._members.get(leader.process.name) in self._leading
        return leader if is_leading else None

    def missing(self) -> list[str]:
        """Return what keeps the group from being whole: all replicas in the set, with everything."""
        if any(not replica.process.is_running for replica in self.replicas.values()):
            return [
                f"{name} does not run" for name, each in self.replicas.items() if not each.process.is_running
            ]
        shown = {name: member.report.describe() for name, member in self._members.items()}
        leader = shown[self.leader.process.name] if self.leader is not None else {}
        if leader.get("role") != "leader" or not leader["isServing"]:
            return [f"no leader serves: {shown}"]
        found = [f"{name} is not in sync" for name in self.replicas if name not in leader["members"]]
        end = leader["endOffset"]
        for name, one in shown.items():
            if one["lostBytes"] or not one["isFit"]:
                found.append(f"{name} is not fit, and has lost {one['lostBytes']} bytes")
            is_there = one["endOffset"] == one["confirmOffset"] == end and one["leader"] == leader["name"]
            if not is_there or not (one is leader or self._members[name].is_copying):
                found.append(f"{name} has {one}, its leader ends at {end}")
        return found

    def compare_logs(self) -> None:
        """Compare the logs of a whole group, byte for byte."""
        leader = self.leader
        assert leader is not None
        end = self._members[leader.process.name].report.describe()["endOffset"]
        segments = {name: _segments(replica) for name, replica in self.replicas.items()}
        begin = max(min(own, default=0) for own in segments.values())  # retention deletes at different times
        for start, wanted in segments[leader.process.name].items():
            for name, own in segments.items():
                have, size = own.get(start, b""), end - start  # the next segment may be there already
                if begin <= start < end and have[:size] != wanted[:size]:
                    self._violate(
                        name, f"has another log than {leader.process.name} in the segment at {start}"
                    )


def _segments(replica: Replica) -> dict[int, bytes]:
    """Return the content of a replica's segments by their first position."""
    files = replica.files
    starts = {start: name for name in files.listdir(LOG) if (start := parse_file_name(name)) is not None}
    return {start: files.content(f"{LOG}/{starts[start]}") for start in sorted(starts)}


@contextmanager
def watched(groups: Mapping[str, Group]) -> Generator[None]:
    """Watch what replicas decide. `groups` by the names of their replicas."""

    def here() -> str:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ProcessLoop)
        return loop.name

    def noting(owner: type, method: str, note: Callable[..., None]) -> Any:
        """Return a patch that calls `note` with the group and the arguments first."""
        right = getattr(owner, method)

        def call(self: Any, *arguments: Any, **options: Any) -> Any:
            if here() in groups:
                note(groups[here()], self, *arguments, **options)
            return right(self, *arguments, **options)

        return patch.object(owner, method, call)

    def leads(group: Group, member: Membership, record: Registered, start: int) -> None:
        group.leads(member, record.epoch, start)

    granting = grants._Granting  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 - where grants pass
    right_finish, right_grant = Opening.finish, granting.__call__

    def finish(opening: Opening, boots: int = 0) -> None:
        right_finish(opening, boots)
        if here() in groups:
            groups[here()].completed(here(), opening.store.boot_count)

    def grant(self: Any, *arguments: Any) -> Any:
        answer = right_grant(self, *arguments)
        groups[here()].granted(here())
        return answer

    with ExitStack() as stack:
        stack.enter_context(noting(Membership, "lead", Group.joins))
        stack.enter_context(noting(Membership, "leads", leads))
        stack.enter_context(noting(Membership, "acknowledged", Group.acknowledged))
        stack.enter_context(patch.object(Opening, "finish", finish))
        stack.enter_context(patch.object(granting, "__call__", grant))
        yield
