"""Decisions about halves that arrive in one turn of the loop, as one entry of the group commit."""

from collections.abc import Callable

from broker_store.appends import Appends
from broker_store.settling.entry import SettleEntry
from broker_store.settling.gathering import Gathered
from broker_store.settling.settling import Settling
from gantry_wire.errors import RefusedRequest
from gantry_wire.names import HALF_TOPIC
from gantry_wire.settle_headers import SettleResult

HALF_SOURCE = (HALF_TOPIC, 0, "")
ENTRY_BYTES_MAX = 4 * 1024 * 1024
ENTRY_ITEMS_MAX = 4096

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
        self._settling.refuse_unless_able()
        items = self._items
        if items is None or self._bytes > ENTRY_BYTES_MAX or len(items) >= ENTRY_ITEMS_MAX:
            items = self._begin()
        items.append(item)
        self._bytes += size
        self._waiting.append(done)

    def _begin(self) -> list[Gathered]:
        items = self._items = list[Gathered]()
        waiting = self._waiting = list[Done]()
        before, self._bytes = self._bytes, 0

        def placing() -> None:
            """Close the entry: the group commit is about to look at its items."""
            if self._items is items:
                self._items = None

        def answered(results: list[SettleResult] | RefusedRequest) -> None:
            if isinstance(results, RefusedRequest):
                placing()  # refused before it was placed
                for done in waiting:
                    done(results)
                return
            for done, result in zip(waiting, results, strict=True):
                done(result)

        self._appends.enqueue(SettleEntry(self._settling, HALF_SOURCE, items, placing, answered), before)
        return items
