"""Chooses the replica of a broker to read: the leader, a follower, or one by its name.

All replicas of a broker keep the same log at the same positions, and every one of them makes snapshots of what its group has confirmed. So it
does not matter which one is read, and another one can be read next time. A snapshot stays readable when another replica takes over.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from gantry_spark.store import files as store_files
from gantry_spark.store import http as store_http

_log = logging.getLogger("gantry_spark")

LEADER: Final = "leader"
FOLLOWER: Final = "follower"
"""The wishes that are no names."""
SEPARATOR: Final = "|"
"""Between the addresses of a broker's replicas."""


class Said(NamedTuple):
    """What a replica says of itself, and where."""

    address: str
    name: str
    role: str
    is_serving: bool
    members: frozenset[str]
    """The in-sync set that it knows."""
    epoch: int
    confirm: int


def addresses_of(text: str) -> tuple[str, ...]:
    """Return the addresses that one broker was given."""
    return tuple(filter(None, (address.strip() for address in text.split(SEPARATOR))))


def ask(addresses: Sequence[str]) -> list[Said]:
    """Return what the replicas at these addresses say; those that do not answer are left out."""
    return [said for address in addresses if (said := _said(address, store_http.replication(address)))]


def of_roles(said: Sequence[Said], wish: str) -> Said | None:
    """Return the replica to read, None if none fits now: while one takes over from another, nobody leads.

    Without a follower in sync, the leader is the one that has everything.
    """
    leading = [one for one in said if one.role == LEADER and one.is_serving]
    leader = max(leading, key=lambda one: one.epoch, default=None)
    if wish == LEADER:
        return leader
    if wish != FOLLOWER:
        return next((one for one in said if one.name == wish), None)
    if leader is None:
        return None
    following = [one for one in said if one.name != leader.name and one.name in leader.members]
    if not following:
        _log.warning("no replica in sync answers but %s, which leads: it is read", leader.name)
    return max(following, key=lambda one: one.confirm, default=leader)


def words_of(addresses: Sequence[str], said: Sequence[Said]) -> str:
    """Return what was found at the addresses, for an error."""
    found: Mapping[str, str] = {one.address: f"{one.name} is {one.role}" for one in said}
    return ", ".join(f"{found.get(address, 'nobody answers')} at {address}" for address in addresses)


def of_files(folders: Sequence[str], wish: str) -> str:
    """Return the directory of the replica to read without asking anybody: the one that knows most to be confirmed.

    In a data directory of the launcher the name of a replica is that of its folder.
    """
    notes = {folder: store_files.replica(folder) for folder in folders}
    names = {folder: folder.rpartition("/")[2] for folder in folders}
    if named := [folder for folder in folders if names[folder] == wish]:
        return named[0]

    def rank(folder: str) -> tuple[int, int, bool]:
        own, note = store_files.own_note(folder), notes[folder]
        epoch = 0 if note is None else note.epoch
        return (0 if own is None else own[1]), epoch, note is not None and names[folder] == note.leader

    newest = max(
        (note for note in notes.values() if note is not None), key=lambda note: note.epoch, default=None
    )
    following = [folder for folder in folders if newest is None or names[folder] != newest.leader]
    return max(following if wish == FOLLOWER and following else folders, key=rank)


def _said(address: str, answer: Mapping[str, Any] | None) -> Said | None:
    if answer is None:
        return None
    return Said(
        address, str(answer["name"]), str(answer["role"]), bool(answer["isServing"]), frozenset(map(str, answer["members"])),
        int(answer["epoch"]), int(answer["confirmOffset"]),
    )  # fmt: skip
