"""Puts shipments together whose parts arrive over one connection, in order. Pure.

One shipment at a time for each sender, and at most SENDERS_MAX senders: a leader has one session with a follower.
"""

from dataclasses import dataclass
from typing import NamedTuple

from broker_store.replication.frames import Part
from broker_store.replication.messages import Beat

SENDERS_MAX = 16


class Shipment(NamedTuple):
    """A whole shipment of a leader: `data` from `position` on, after which the log ends at `end`."""

    head: Beat
    position: int
    end: int
    data: bytes


@dataclass(slots=True)
class _Begun:
    first: Part
    parts: list[bytes]
    received: int


class Arriving:
    """The shipments that have begun to arrive."""

    def __init__(self) -> None:
        self._begun: dict[str, _Begun] = {}

    def take(self, sender: str, part: Part) -> Shipment | None:
        """Take a part; return the shipment that it completes.

        A part that continues nothing is dropped with what has arrived: the connection ended in between, and the leader ships again.
        """
        begun = self._begun.pop(sender, None)
        if part.at == 0:
            if len(part.data) == part.size:
                return Shipment(part.head, part.position, part.end, part.data)
            if len(self._begun) >= SENDERS_MAX:
                self._begun.clear()
            self._begun[sender] = _Begun(part, [part.data], len(part.data))
            return None
        if begun is None or begun.received != part.at or not _continues(begun.first, part):
            return None
        begun.parts.append(part.data)
        begun.received += len(part.data)
        if begun.received == part.size:
            return Shipment(part.head, part.position, part.end, b"".join(begun.parts))
        self._begun[sender] = begun
        return None

    def forget(self, sender: str) -> None:
        """Drop what has arrived from a sender, for example because its connection ended."""
        self._begun.pop(sender, None)


def _continues(first: Part, part: Part) -> bool:
    return (first.head, first.position, first.end, first.size) == (
        part.head,
        part.position,
        part.end,
        part.size,
    )
