"""The history of every message of a run: acknowledged messages must arrive, once and in order, and no others. Pure.

A message begun without an answer may be stored or not, so it may arrive. Once an acknowledged message has arrived at
every reader only its number is kept, so that hours of messages cost little.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from gantry_loadtest.judging.intervals import Intervals

Id = tuple[int, int]
"""Stream (a sender of this run) and number in it."""


class Place(tuple[str, str, int]):
    """Topic, broker, queue id."""

    __slots__ = ()


@dataclass(slots=True)
class Sent:
    """One message in flight. Instants are seconds of the run; `due` is in ms since 1970."""

    intended: float
    missing: int
    """One bit for each reader that has not got it."""
    begun: float = 0.0
    acknowledged: bool = False
    refused: bool = False
    place: Place | None = None
    offset: int = -1
    due: float = 0.0


class Arrival(Enum):
    """The verdict on an arrival."""

    FIRST = "first"
    AGAIN = "again"
    REFUSED = "refused"
    """Of a message that may never arrive."""
    STRANGE = "strange"
    """Of a message that this run never sent."""


class History:
    """Judges arrivals at each reader."""

    def __init__(self, readers: list[str]) -> None:
        self._bits = {reader: 1 << number for number, reader in enumerate(readers)}
        self._all = (1 << len(readers)) - 1
        self._open: dict[Id, Sent] = {}
        self._settled: dict[int, Intervals] = {}
        self._latest: dict[tuple[str, int], int] = {}
        self._places: dict[tuple[str, Place], int] = {}

    def begin(self, stream: int, number: int, intended: float, begun: float = 0.0) -> Sent:
        """Add a message that is about to be sent: from now on it may be stored."""
        sent = Sent(intended, self._all, begun or intended)
        self._open[stream, number] = sent
        return sent

    def sent(self, stream: int, number: int) -> Sent | None:
        """Return a message whose details are still kept."""
        return self._open.get((stream, number))

    def acknowledge(self, stream: int, number: int, place: Place | None = None, offset: int = -1) -> None:
        """Record the acknowledgement: the message must arrive."""
        sent = self._open.get((stream, number))
        if sent is not None:
            sent.acknowledged, sent.place, sent.offset = True, place, offset
            self._settle((stream, number), sent)

    def refuse(self, stream: int, number: int) -> list[str]:
        """Record a definite refusal: the message must never arrive. Returns the readers that already got it."""
        sent = self._open.get((stream, number))
        if sent is None:
            return []
        sent.refused = True
        return [reader for reader, bit in self._bits.items() if not sent.missing & bit]

    def arrive(self, reader: str, stream: int, number: int) -> tuple[Arrival, Sent | None]:
        """Record and judge an arrival; return the message too while its details are kept."""
        sent = self._open.get((stream, number))
        if sent is None:
            return (Arrival.AGAIN if number in self._settled.get(stream, ()) else Arrival.STRANGE), None
        bit = self._bits[reader]
        if not sent.missing & bit:
            return Arrival.AGAIN, sent
        sent.missing &= ~bit
        if sent.refused:
            return Arrival.REFUSED, sent
        if sent.acknowledged:
            self._settle((stream, number), sent)
        return Arrival.FIRST, sent

    def is_in_order(self, reader: str, stream: int, number: int) -> bool:
        """Whether a first arrival follows all earlier ones of its stream; ask once for each."""
        before = self._latest.get((reader, stream), -1)
        self._latest[reader, stream] = max(before, number)
        return number > before

    def is_ahead_in_queue(self, reader: str, place: Place, offset: int) -> bool:
        """Whether a first arrival lies behind all earlier ones of its queue; ask once for each."""
        before = self._places.get((reader, place), -1)
        self._places[reader, place] = max(before, offset)
        return offset > before

    def has_arrived(self, reader: str, stream: int, number: int) -> bool:
        """Whether a reader got it."""
        sent = self._open.get((stream, number))
        return (
            number in self._settled.get(stream, ()) if sent is None else not sent.missing & self._bits[reader]
        )

    @property
    def outstanding(self) -> int:
        """The number of acknowledged messages that have not arrived everywhere."""
        return sum(1 for sent in self._open.values() if sent.acknowledged and sent.missing)

    @property
    def latest_due(self) -> float:
        """The latest due time of a kept message, in ms since 1970; 0.0 where none is delayed."""
        return max((sent.due for sent in self._open.values()), default=0.0)

    @property
    def open(self) -> int:
        """The number of kept messages: outstanding ones, and those without an answer."""
        return len(self._open)

    def absent(self) -> Iterator[tuple[str, Id, Sent]]:
        """Yield the acknowledged messages each reader has not got."""
        for name, sent in self._open.items():
            if sent.acknowledged:
                yield from ((reader, name, sent) for reader, bit in self._bits.items() if sent.missing & bit)

    def judge(self, had_its_chance: Callable[[str, Sent], bool]) -> tuple[list[tuple[str, Id, Sent]], int]:
        """Return the lost messages, and the number not seen.

        A missing message is lost if its reader waited long enough, and not seen otherwise.
        """
        lost: list[tuple[str, Id, Sent]] = []
        not_seen = 0
        for reader, name, sent in self.absent():
            if had_its_chance(reader, sent):
                lost.append((reader, name, sent))
            else:
                not_seen += 1
        return lost, not_seen

    def _settle(self, name: Id, sent: Sent) -> None:
        if not sent.missing:
            del self._open[name]
            self._settled.setdefault(name[0], Intervals()).add(name[1])
