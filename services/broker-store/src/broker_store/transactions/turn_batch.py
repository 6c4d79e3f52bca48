"""Decisions about halves that arrive in one turn of the loop, as one entry of the group commit."""

from collections.abc import Callable

from broker_store.appends import Appends
from broker_store.settling.entry import SettleEntry
from broker_store.settling.gathering import Gathered
from broker_store.settling.settling import Settling
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.names import HALF_TOPIC
from gantry_wire.settle_headers import SettleResult

HALF_SOURCE = (HALF_TOPIC, 0, "")
ENTRY_BYTES_MAX = 4 * 1024 * 1024
ENTRY_ITEMS_MAX = 4096
TRIES_MAX = 16
"""A batch that waited too long is refused as a whole, for the sake of its sends. Decisions may wait longer (3 s in RocketMQ):
nobody repeats a one-way one, and its producer would have to be asked."""

Done = Callable[[SettleResult | RefusedRequest], None]


class TurnBatch:
    """Gathers until the group commit places the entry, then begins a new one."""

    def __init__(self, settling: Settling, appends: Appends) -> None:
        self._settling = settling
        self._appends = appends
        self._items: list[Gathered] | None = None
        self._waiting: list[Done] = []
        self._bytes = 0

    def add(self, item: Gathered, size: int, done: Done) -> None:
        """Take one decision in; `done` is called once, in the loop. Raises RefusedRequest when nothing can be taken now."""
        items = self._items
        if items is None or self._bytes > ENTRY_BYTES_MAX or len(items) >= ENTRY_ITEMS_MAX:
            self._settling.refuse_unless_able()  # once for what is one entry: a log that stops meanwhile refuses it
            items = self._begin()
        items.append(item)
        self._bytes += size
        self._waiting.append(done)

    def _begin(self) -> list[Gathered]:
        items = self._items = list[Gathered]()
        self._waiting = list[Done]()
        before, self._bytes = self._bytes, 0
        self._enqueue(items, self._waiting, before, TRIES_MAX)
        return items

    def _enqueue(self, items: list[Gathered], waiting: list[Done], size: int, tries: int) -> None:
        def placing() -> None:
            """Close the entry: the group commit is about to look at its items."""
            if self._items is items:
                self._items = None

        def answered(results: list[SettleResult] | RefusedRequest) -> None:
            if not isinstance(results, RefusedRequest):
                for done, result in zip(waiting, results, strict=True):
                    done(result)
                return
            placing()  # it may have been refused before it was placed
            if results.code == ResponseCode.SYSTEM_BUSY and tries > 1:
                self._enqueue(items, waiting, size, tries - 1)
                return
            for done in waiting:
                done(results)

        self._appends.enqueue(SettleEntry(self._settling, HALF_SOURCE, items, placing, answered), size)
