"""Planted violations of rules 10 and 11: what retention deletes, and how a replica begins again."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mutant_registry import MUTANTS, Mutant, mutant

from broker_store.replication.as_follower import Following
from broker_store.replication.as_leader import Leading
from broker_store.replication.epochs import EpochTable
from broker_store.replication.replica import Replica
from broker_store.replication.steps import EndReason, Kept

_hello = Leading._hello

# Rule 10


_hear = Following._hear


def _deletes_what_is_confirmed(following: Following, copying: Any, head: Any) -> None:
    _hear(following, copying, replace(head, first=min(head.confirm or 0, following._replica.end)))


MUTANTS["follower_deletes_by_itself"] = Mutant(
    10,
    "a follower deletes what is confirmed, whatever its leader has",
    ((Following, "_hear", _deletes_what_is_confirmed),),
)


_beat = Leading.beat


@mutant(10, "a leader names its confirm offset as its first position", (Leading, "beat"))
def begins_at_its_confirm_offset(leading: Leading, session: Any) -> Any:
    beat = _beat(leading, session)
    return replace(beat, first=beat.confirm or 0)


# Rule 11


def _ignores_the_beginning(following: Following, welcome: Any, first: int) -> None:
    following._leave()


MUTANTS["never_begins_again"] = Mutant(
    11,
    "asks again and again for a position that the leader has deleted",
    ((Following, "_begin_again", _ignores_the_beginning),),
)


def _begins_with(**changes: Any) -> Callable[..., None]:
    """Begin again with other values in the kept file."""

    def begin_again(following: Following, welcome: Any, first: int) -> None:
        replica = following._replica
        following._leave()
        if replica.may.begins_again:
            values = {
                "fence": max(replica.kept.fence, welcome.version), "table": welcome.table.until(first), "begin": first,
                "is_void": True,
            }  # fmt: skip
            replica.end_process_after(replace(replica.kept, **(values | changes)), EndReason.BEGINS_AGAIN)

    return begin_again


MUTANTS["begins_again_without_a_table"] = Mutant(
    11,
    "begins again without the leader's table of what it skips",
    ((Following, "_begin_again", _begins_with(table=EpochTable())),),
)
MUTANTS["begins_again_at_zero"] = Mutant(
    11,
    "removes its log and does not remember where it begins",
    ((Following, "_begin_again", _begins_with(begin=0)),),
)
MUTANTS["log_not_void"] = Mutant(
    11, "begins again on its old log", ((Following, "_begin_again", _begins_with(is_void=False)),)
)


def _begin_again_without_a_fence(following: Following, welcome: Any, first: int) -> None:
    _begins_with(fence=following._replica.kept.fence)(following, welcome, first)


MUTANTS["begins_again_without_the_version"] = Mutant(
    11,
    "begins again without remembering the leader's version",
    ((Following, "_begin_again", _begin_again_without_a_fence),),
)


def _end_at_once(replica: Replica, kept: Kept, reason: EndReason) -> None:
    replica.persist(kept)
    replica.end_process(reason)


MUTANTS["ends_before_it_is_durable"] = Mutant(
    11,
    "ends before it is durable that the log is void",
    ((Replica, "end_process_after", _end_at_once),),
)


def _continues_meanwhile(replica: Replica, kept: Kept, reason: EndReason) -> None:
    replica.persist(kept, lambda: replica.end_process(reason))


MUTANTS["continues_on_a_void_log"] = Mutant(
    11,
    "takes part in the group until it is durable that its log is void",
    ((Replica, "end_process_after", _continues_meanwhile),),
)


def _begin_again_in_any_state(following: Following, welcome: Any, first: int) -> None:
    replica = following._replica
    following._leave()
    kept = replace(
        replica.kept, fence=max(replica.kept.fence, welcome.version), table=welcome.table.until(first), begin=first,
        is_void=True,
    )  # fmt: skip
    replica.end_process_after(kept, EndReason.BEGINS_AGAIN)


MUTANTS["member_begins_again"] = Mutant(
    11, "begins again although the set contains it", ((Following, "_begin_again", _begin_again_in_any_state),)
)


def _hello_as_if_nothing_was_deleted(leading: Leading, peer: str, hello: Any) -> None:
    replica = leading._replica
    first, replica.first = replica.first, 0
    _hello(leading, peer, hello)
    replica.first = first


MUTANTS["member_without_its_log_welcomed"] = Mutant(
    11,
    "welcomes a member whose position it has deleted, and does not say where its log begins",
    ((Leading, "_hello", _hello_as_if_nothing_was_deleted),),
)
