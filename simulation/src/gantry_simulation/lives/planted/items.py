"""Faults planted in what works on items: settling, schedulers, txn-checkers; in the offsets of groups, a nameserver and the SDK."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from broker_store.groups import offset_keeper
from broker_store.groups.committed_offsets import CommittedOffsets
from broker_store.groups.offset_file import FileContent
from broker_store.settling.claims import Claim, ClaimTable
from broker_store.settling.decided.settled_table import SettledTable
from broker_store.settling.request import item_decisions
from broker_store.settling.request.ahead import Ahead
from broker_store.settling.states import Ask, ItemState
from gantry_simulation.lives.planted.fault import Planted, Together, Wrap
from gantry_wire.private_requests.settling import SettleItem, SettleStatus
from gantrymq import MessageQueue, PullConsumer, PullResult
from gantrymq.consumer.shared.locking import Locks
from gantrymq.consumer.shared.offsets import BrokerOffsets
from gantrymq.consumer.shared.process_queue import ProcessQueue
from nameserver.durable_file import DurableFile
from scheduler.delivering.decisions import CANCELLED, deliver
from scheduler.filling import catching_up
from scheduler.index.due_queues import DueQueues
from scheduler.index.entries import Entry
from scheduler.index.known_offsets import KnownOffsets, QueueState
from scheduler.orders import orders
from txn_checker import undecided
from txn_checker.check_policy import Policy
from txn_checker.half_message import Half
from txn_checker.store_watch import StoreWatch

Answers = Mapping[ItemState, Mapping[Ask, str]]
FOREVER_MS = 1 << 50


def _always(value: object) -> Wrap:
    """Return this, whatever the arguments are."""

    def answer(*_arguments: object) -> object:
        return value

    return lambda _right: answer


def _file_wins(_right: object) -> Callable[..., bool]:
    def wins(file: FileContent, _log: object, *, was_stopped: bool) -> bool:
        del was_stopped
        return bool(file.offsets)

    return wins


def _settles(state: ItemState) -> Callable[[Answers], Answers]:
    """Decide items in this state, too."""
    return lambda right: {**right, state: dict.fromkeys(Ask, SettleStatus.SETTLED)}


def _hold_forever(right: Any) -> Callable[..., list[Claim]]:
    def claim(table: ClaimTable, *arguments: Any) -> list[Claim]:
        granted: list[Claim] = right(table, *arguments)
        for one in granted:
            one.until_ms = FOREVER_MS
        return granted

    return claim


def _cancel_by_delivery(_right: Any) -> Callable[[Entry], SettleItem]:
    def cancel(entry: Entry) -> SettleItem:
        item = deliver(entry, force=True)
        item.outcome = CANCELLED
        return item

    return cancel


async def believe_the_index(
    _broker: str, _store: object, index: DueQueues, states: Mapping[int, QueueState], _levels: object
) -> dict[int, KnownOffsets]:
    """Take an index over without comparing it with the store, as `resume` must not."""
    kept = await index.far.keep(states) if index.far.is_old else None
    if kept is None:
        return {source: KnownOffsets(state.settled) for source, state in states.items()}
    index.kept(kept.counts)
    return {source: KnownOffsets([(state.cursor, state.end)]) for source, state in states.items()}


def _due_at_once(_right: Any) -> Callable[[Policy, Half], int]:
    def due_ms(_policy: Policy, half: Half) -> int:
        return half.stored_ms

    return due_ms


async def _nothing(*_arguments: object) -> None:
    """Do nothing."""


def _commit_what_is_buffered(_right: Any) -> property:
    return property(lambda queue: queue.next_offset)


def _pull_one_too_far(right: Any) -> Any:
    async def pull(*arguments: Any, **options: Any) -> PullResult:
        pulled: PullResult = await right(*arguments, **options)
        return replace(pulled, next_offset=pulled.next_offset + bool(pulled.messages))

    return pull


def _lock_all(_right: Any) -> Any:
    async def lock(
        _locks: Locks, queues: Collection[MessageQueue]
    ) -> tuple[set[MessageQueue], set[MessageQueue]]:
        return set(queues), set()

    return lock


PLANTED_ITEMS: tuple[Planted | Together, ...] = (
    Together(
        "a delayed message is delivered early",
        (
            Planted("", item_decisions, "ANSWERS", _settles(ItemState.WAITING)),
            Planted("", Ahead, "keep", _always(value=False)),
        ),
    ),
    Planted("an item is decided again", item_decisions, "ANSWERS", _settles(ItemState.DECIDED)),
    Planted("saved decisions are not loaded", SettledTable, "load", _always(value=True)),
    Together(
        "a claim never ends",
        (Planted("", ClaimTable, "claim", _hold_forever), Planted("", ClaimTable, "close_peer", _always([]))),
    ),
    Planted("a cancelled message is delivered", orders, "cancel", _cancel_by_delivery),
    Planted("a scheduler believes its index", catching_up, "resume", lambda _right: believe_the_index),
    Planted("a checker asks no producer", StoreWatch, "_ask", lambda _right: _nothing),
    Planted("a checker asks at once", undecided, "due_ms", _due_at_once),
    Planted("records of offsets are not replayed", CommittedOffsets, "take", _always(None)),
    Planted("saved offsets are not loaded", CommittedOffsets, "load", _always(value=True)),
    Planted("a start takes an old file of offsets", offset_keeper, "does_file_win", _file_wins),
    Planted("a nameserver writes no file", DurableFile, "write_now", _always(None)),
    Planted(
        "a member commits what it has not consumed", ProcessQueue, "commit_offset", _commit_what_is_buffered
    ),
    Planted("a pull continues one message too late", PullConsumer, "pull", _pull_one_too_far),
    Planted("a member consumes without the lock of its queue", Locks, "lock", _lock_all),
    Planted("a member begins at the start of its queues", BrokerOffsets, "read", lambda _right: _nothing),
)
