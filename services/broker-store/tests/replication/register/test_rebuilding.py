"""Which replica leads a register that is made again: the one whose log has everything that was acknowledged."""

import pytest

from broker_store.replication.register.rebuilding import (
    ROOM,
    CannotRebuild,
    Remembered,
    missing_names,
    rebuilt,
)
from broker_store.replication.register.record import Registered


def record(version: int, epoch: int, *members: str, origin: str = "first") -> Registered:
    return Registered(version, "broker-a", epoch, members[0], members, 4, "n", origin)


def replica(
    name: str, epoch: int, end: int, newest: Registered | None, fence: int = 1, *, is_void: bool = False
) -> Remembered:
    return Remembered(
        group="broker-a", name=name, fence=fence, newest=newest, epoch=epoch, end=end, is_void=is_void
    )


def test_the_longest_log_of_the_newest_epoch_leads_alone() -> None:
    known = record(7, 3, "a", "b", "c")
    made = rebuilt(
        [replica("a", 3, 500, known), replica("b", 3, 700, known), replica("c", 2, 900, known)], "x"
    )
    assert (made.leader, made.members) == ("b", ("b",))


def test_a_set_that_replicas_remember_does_not_decide() -> None:
    """b left the set and c does not know it: the leader crashed before it noted its last record."""
    stale = record(7, 3, "a", "b", "c")
    made = rebuilt(
        [replica("b", 3, 100, stale), replica("c", 3, 900, stale), replica("a", 3, 900, stale)], "x"
    )
    assert made.leader in {"a", "c"}


def test_the_numbers_are_far_above_all_that_is_remembered_or_promised() -> None:
    replicas = [replica("a", 5, 10, record(7, 3, "a", "b")), replica("b", 2, 10, record(6, 2, "b"), fence=9)]
    made = rebuilt(replicas, "x")
    assert (made.version, made.epoch, made.boots) == (9 + ROOM, 5 + ROOM, 4 + ROOM)
    assert (made.group, made.nonce, made.origin) == ("broker-a", "x", "first")


def test_a_void_log_and_a_directory_that_never_belonged_to_the_group_do_not_lead() -> None:
    known = record(7, 3, "a", "b")
    replicas = [
        replica("a", 3, 10, known), replica("b", 9, 900, known, is_void=True), replica("c", 0, 5000, None, fence=0),
    ]  # fmt: skip
    assert rebuilt(replicas, "x").leader == "a"
    with pytest.raises(CannotRebuild, match="nothing to rebuild from"):
        rebuilt(replicas[1:], "x")


def test_replicas_of_two_brokers_or_of_one_name_are_refused() -> None:
    one = replica("a", 3, 10, record(7, 3, "a"))
    other = Remembered(group="broker-b", name="b", fence=1, newest=None, epoch=1, end=1, is_void=False)
    with pytest.raises(CannotRebuild, match="several brokers: broker-a, broker-b"):
        rebuilt([one, other], "x")
    with pytest.raises(CannotRebuild, match="same name"):
        rebuilt([one, one], "x")
    other = replica("b", 3, 10, record(7, 3, "b", origin="second"))
    with pytest.raises(CannotRebuild, match="two groups with the same name"):
        rebuilt([one, other], "x")
    with pytest.raises(CannotRebuild, match="remembers a record"):
        rebuilt([replica("a", 3, 10, None)], "x")
    with pytest.raises(CannotRebuild, match="several brokers: none"):
        rebuilt([], "x")


def test_missing_are_replicas_of_the_settings_and_of_remembered_sets() -> None:
    replicas = [replica("a", 3, 10, record(7, 3, "a", "old"))]
    assert missing_names(replicas, ("a", "b")) == ["b", "old"]
    assert missing_names([replica("a", 3, 10, None)], ("a",)) == []
