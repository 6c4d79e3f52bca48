"""Faults planted in how replicas work together. Lives of groups must find each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_store.log.log_range import LogRange
from broker_store.opening.opening import Opening
from broker_store.process.group import kept
from broker_store.process.group.gap_wait import GapWait
from broker_store.process.membership import Membership
from broker_store.replication.as_follower import Following
from broker_store.replication.filling import Filling
from broker_store.replication.gate import Gate
from broker_store.replication.kept_file import KeptFile
from broker_store.replication.replica_log import ReplicaLog
from broker_store.replication.shell import Shell
from broker_store.replication.steps import Kept
from gantry_simulation.lives.planted.fault import Planted, Together


def _own_end(_right: Callable[..., Any]) -> Callable[..., Any]:
    def advance(gate: Gate) -> None:
        gate.confirm = max(gate.confirm or 0, gate._ends.get(gate._leader, 0))  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 - it plants a fault there

    return advance


def _without_a_lease(_right: Any) -> property:
    return property(lambda member: (lambda: True) if member.settings.is_async else None)


def _no(_right: Any) -> bool:
    return False


def _always(_right: Any) -> property:
    return property(lambda _self: True)


def _show_everything(right: Callable[..., Any]) -> Callable[..., Any]:
    def shown(member: Membership, _up_to: int) -> None:
        member._limit = member._log.written_end  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 - it plants a fault there
        right(member, member._log.written_end)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001

    return shown


def _at_its_end(right: Callable[..., Any]) -> Callable[..., Any]:
    def take_checkpoints(member: Membership) -> Any:
        checkpoints, log = member.checkpoints, member._log  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 - it plants a fault there
        take = checkpoints.take

        async def take_at_end() -> int:
            log.visible_end = log.visible_below = log.written_end
            return await take()

        checkpoints.take = take_at_end
        return right(member)

    return take_checkpoints


def _confirmed_at_once(right: Callable[..., Any]) -> Callable[..., Any]:
    def leads(member: Membership, *arguments: Any) -> None:
        right(member, *arguments)
        member._lead_from = 0  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 - it plants a fault there

    return leads


def _own_boots(right: Callable[..., Any]) -> Callable[..., Any]:
    def finish(opening: Opening, boots: int = 0) -> None:
        del boots
        right(opening, 0)

    return finish


def _what_is_written(right: Callable[..., Any]) -> Callable[..., Any]:
    def report(following: Following) -> None:
        replica = following._replica  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 - it plants a fault there
        replica.durable = replica.end
        right(following)

    return report


def _kept_in_memory(_right: Callable[..., Any]) -> Callable[..., Any]:
    def write(file: KeptFile, kept: Kept) -> None:
        file.kept = kept

    return write


def _no_cut(_right: Callable[..., Any]) -> Callable[..., Any]:
    def cut_back(_log: ReplicaLog, _end: int) -> None:
        """Leave everything."""

    return cut_back


def _yes(_right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *_arguments: True


def _without_a_walk(_right: Callable[..., Any]) -> Callable[..., Any]:
    async def fill(_filling: Filling, _held: LogRange) -> bool:
        return True

    return fill


def _serves_at_once(_right: Callable[..., Any]) -> Callable[..., Any]:
    def look(wait: GapWait, *_arguments: Any) -> bool:
        wait.may_serve = True
        wait._on_may_serve()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 - it plants a fault there
        return False

    return look


def _nothing_again(_right: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *_arguments: False


PLANTED_REPLICAS: tuple[Planted | Together, ...] = (
    Planted("a leader acknowledges what it alone has", Gate, "_advance", _own_end),
    Planted("topics with asynchronous flush are answered before the group", Membership, "holds_all", _no),
    Planted("a follower replays what is not confirmed", Membership, "shown", _show_everything),
    Planted("a follower's checkpoint is at its end", Membership, "_take_checkpoints", _at_its_end),
    Planted("a leader serves before its log is confirmed", Membership, "leads", _confirmed_at_once),
    Planted(
        "an asynchronous leader answers without its lease", Membership, "may_answer_alone", _without_a_lease
    ),
    Planted("a leader grants without its lease", Shell, "may_grant", _always),
    Planted("a leader keeps the boot count of its directory", Opening, "finish", _own_boots),
    Planted("a follower acknowledges before its sync", Following, "report", _what_is_written),
    Planted("the promises of a replica are not durable", KeptFile, "write", _kept_in_memory),
    Planted("a follower keeps what its leader has not", ReplicaLog, "cut_back", _no_cut),
    Planted("a follower accepts a leader that knows less", Following, "_accepts", _yes),
    Planted("a hole counts as filled without a walk", Filling, "_fill", _without_a_walk),
    Planted("what lacks the records of a hole stays", kept, "clear_derived", _nothing_again),
    Planted("a leader whose log has a hole serves", GapWait, "look", _serves_at_once),
)
