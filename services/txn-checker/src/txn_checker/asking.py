"""Selects the store that asks a producer: the store of the half, or another one with a channel of the group."""

from collections.abc import Callable, Iterable

from gantry_wire.errors import WireError
from gantry_wire.private_requests.transactions import AskProducer
from gantry_wire.records.half_message import sent_message
from txn_checker.half_message import Half
from txn_checker.ports import Store, StoreFailed

REMEMBERED_GROUPS_MAX = 10_000


class Producers:
    """Finds a store with a channel of a group, and remembers where it was."""

    def __init__(self, stores: Callable[[], Iterable[Store]]) -> None:
        self._stores = stores
        self._last: dict[str, str] = {}
        self.asked = 0
        self.nobody = 0
        """Checks that reached no client, because none of the group is connected."""

    async def ask(self, home: Store, group: str, ask: AskProducer) -> bool:
        """Ask one client of the group; False when none is connected anywhere. Never raises."""
        message = b""
        for store in self._in_order(home, group):
            try:
                if store.address != home.address and not message:
                    message = sent_message(await home.record_at(ask.position))
                ask.message = message if store.address != home.address else b""
                if await store.ask_producer(ask):
                    self._remember(group, store.broker)
                    self.asked += 1
                    return True
            except (StoreFailed, WireError):
                continue  # that store is down: its clients connect elsewhere, and the next check retries
        self.nobody += 1
        return False

    def _in_order(self, home: Store, group: str) -> list[Store]:
        """Return the half's own store first, then the store where the group was last found.

        The half's own clients answer its store directly.
        """
        others = [store for store in self._stores() if store.address != home.address]
        last = self._last.get(group)
        return [home, *sorted(others, key=lambda store: store.broker != last)]

    def _remember(self, group: str, broker: str) -> None:
        self._last[group] = broker
        if len(self._last) > REMEMBERED_GROUPS_MAX:
            del self._last[next(iter(self._last))]


def question(half: Half, home: Store) -> AskProducer:
    """Return the check request for a half."""
    return AskProducer(
        producer_group=half.group,
        key=half.key,
        broker=home.broker,
        home=home.address,
        offset=half.offset,
        position=half.position,
        message_id=half.message_id,
        message=b"",
    )
