"""Readiness: one message has made the round trip through each store, once per store and address, or a moment ago."""

import asyncio
from collections.abc import Callable

from gantry_wire.codes import ResponseCode
from gantry_wire.messages.ids import UniqueIds
from gantry_wire.messages.properties import UNIQ_KEY
from gantry_wire.records.message_record import scan_records
from gateway.http.problems import Problem
from gateway.ports.stores import Broker, PeerAway, Store, StoreRefused, outcome_of
from gateway.routing.fleet import Fleet

PROBE_TOPIC = "GANTRY_SYS_PROBE"
WAIT_MS = 1000
FRESH_SECONDS = 1.0
"""A fresh check uses results up to this age, so that its callers cause at most one message per second and store."""


class Probe:
    """Remembers which stores passed the probe."""

    def __init__(
        self, fleet: Fleet, ids: UniqueIds, wall_ms: Callable[[], int], steady: Callable[[], float]
    ) -> None:
        """`steady` counts seconds and never goes back."""
        self._fleet, self._ids, self._wall_ms, self._steady = fleet, ids, wall_ms, steady
        self._latest: dict[tuple[str, str], tuple[float, str]] = {}
        self._done: set[tuple[str, str]] = set()
        self._lock = asyncio.Lock()

    async def check(self, brokers_min: int, *, fresh: bool = False) -> tuple[bool, dict[str, str]]:
        """Return whether at least `brokers_min` stores are registered and all pass, and the state of each.

        With `fresh`, each store must pass now, also one that passed before.
        """
        try:
            brokers, _gone = await self._fleet.brokers()
        except Problem as problem:
            return False, {"*": problem.detail}
        states: dict[str, str] = {}
        async with self._lock:  # concurrent callers share one round trip
            for broker in brokers:
                place = broker.name, broker.address
                if fresh or place not in self._done:
                    states[broker.name] = await self._state_of(broker, is_shared=fresh)
                if states.setdefault(broker.name, "ok") == "ok":
                    self._done.add(place)
        if len(brokers) < brokers_min:
            states["*"] = f"{len(brokers)} of {brokers_min} stores are registered"
        return set(states.values()) == {"ok"}, states

    async def _state_of(self, broker: Broker, *, is_shared: bool) -> str:
        place = broker.name, broker.address
        at, state = self._latest.get(place, (0.0, ""))
        if is_shared and state and self._steady() - at < FRESH_SECONDS:
            return state
        state = await self._round_trip(self._fleet.store(broker))
        self._latest[place] = self._steady(), state
        return state

    async def _round_trip(self, store: Store) -> str:
        message_id = self._ids.next(self._wall_ms())
        try:
            properties = f"{UNIQ_KEY}\x01{message_id}\x02"
            (stored,) = await outcome_of(store.send, PROBE_TOPIC, 0, b"probe", properties)
            pulled = await store.pull(PROBE_TOPIC, 0, stored.queue_offset, 1, WAIT_MS, "")
        except StoreRefused as error:
            return f"refused: {error.remark}"
        except PeerAway as error:
            return f"away: {error}"
        if pulled.code != ResponseCode.SUCCESS:
            return "the probe did not come back"
        record = next(iter(scan_records(pulled.records)), None)
        found = record is not None and record.property_map().get(UNIQ_KEY) == message_id
        return "ok" if found else "another message came back"
