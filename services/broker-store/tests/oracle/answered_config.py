"""What requests changed in groups and settings, and which of it a store must still have: the last change that was answered, or a later one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
from sending_side import ScriptedPeer

from broker_store.config_log.config_entries import ConfigEntries
from broker_store.config_log.config_entry import Key, Kind

Value = int | str | None
"""A group's tries, or a setting's text. None: deleted, or never made."""


@dataclass
class AnsweredConfig:
    """All changes of one life. Nothing else changes these groups and settings."""

    changes: dict[Key, list[tuple[Value, ScriptedPeer | None]]] = field(
        default_factory=dict[Key, list[tuple[Value, ScriptedPeer | None]]]
    )
    """In the order of the requests, with the connection of each, which gets one answer. None for what an opening has found."""

    def note(self, key: Key, value: Value, peer: ScriptedPeer) -> None:
        """Note a request that was just sent."""
        self.changes.setdefault(key, [(None, None)]).append((value, peer))

    def lost(self, entries: ConfigEntries) -> Iterator[str]:
        """Yield what an opened store should have, and does not."""
        for key, changes in self.changes.items():
            possible = _possible(changes)
            if (found := _value(entries, key)) not in possible:
                yield f"{key}: {found!r} is none of the values that may be: {possible}"

    def continue_with(self, entries: ConfigEntries) -> None:
        """Take what the next run has found as known."""
        for key, changes in self.changes.items():
            changes[:] = [(_value(entries, key), None)]


def _possible(changes: list[tuple[Value, ScriptedPeer | None]]) -> list[Value]:
    last = max(
        at
        for at, (_, peer) in enumerate(changes)
        if peer is None or any(answer.code == 0 for answer in peer.answers)
    )
    return [value for value, _ in changes[last:]]


def _value(entries: ConfigEntries, key: Key) -> Value:
    entry = entries.find(key)
    if entry is None or entry.value is None:
        return None
    if key.kind is Kind.GROUP:
        return int(msgspec.json.decode(entry.value)["retryMaxTimes"])
    return msgspec.json.decode(entry.value, type=str)
