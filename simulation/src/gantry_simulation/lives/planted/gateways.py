"""Faults planted in gateways, and in what their leases rely on. Lives with gateways must find each."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

from broker_store.leases.lease_table.handle_state import HandleState
from broker_store.leases.lease_table.lease_table import LeaseTable
from gantry_simulation.lives.planted.fault import Planted
from gantry_wire.messages.properties import GANTRY_KEY
from gantry_wire.private_requests.leases import ItemKind, ItemStatus, unpack_items
from gateway.receive.receiving import LeasePass
from gateway.send import drafts
from gateway.stores.link_leases import LinkLeaseStore

OFFSET = re.compile(rb'"queueOffset":(\d+)')
DROPPED_OF = 4
"""Every so many-th message of a queue is dropped."""


def _answer_acks_alone(right: Callable[..., Any]) -> Callable[..., Any]:
    def settle(
        store: LinkLeaseStore,
        topic: str,
        group: str,
        items: bytes,
        reasons: Any,
        on_result: Callable[..., Any],
    ) -> None:
        kinds = [item[0] for item in unpack_items(items)]
        if set(kinds) == {ItemKind.ACK}:
            asyncio.get_running_loop().call_soon(on_result, bytes([ItemStatus.DONE]) * len(kinds))
        else:
            right(store, topic, group, items, reasons, on_result)

    return settle


def _any_lease(right: Callable[..., Any]) -> Callable[..., Any]:
    def handle_state(table: LeaseTable, offset: int, *rest: Any) -> HandleState:
        state = right(table, offset, *rest)
        is_held = state is HandleState.EXPIRED and table.runs.find(offset) is not None
        return HandleState.HELD if is_held else state

    return handle_state


def _without_key(right: Callable[..., Any]) -> Callable[..., Any]:
    def key_properties(item: Any, *rest: Any) -> tuple[str, int]:
        text, count = right(item, *rest)
        before, key, _ = text.partition(GANTRY_KEY)
        return before, count - bool(key)

    return key_properties


def _some_dropped(right: Callable[..., Any]) -> Callable[..., Any]:
    def taken(*arguments: Any) -> Any:
        found = right(*arguments)
        parts = [part for part in found.shown.parts if not _is_dropped(part)]
        return found._replace(shown=found.shown._replace(parts=parts))

    return taken


def _is_dropped(part: bytes) -> bool:
    offset = OFFSET.search(part)
    return offset is not None and int(offset[1]) % DROPPED_OF == DROPPED_OF - 1


GATEWAY_FAULTS = (
    Planted(
        "an acknowledgment is answered and goes to no store", LinkLeaseStore, "settle", _answer_acks_alone
    ),
    Planted("a handle is taken without its lease", LeaseTable, "handle_state", _any_lease),
    Planted("an idempotency key is not sent on", drafts, "_key_properties", _without_key),
    Planted("a receive drops messages of its batch", LeasePass, "_taken", _some_dropped),
)
