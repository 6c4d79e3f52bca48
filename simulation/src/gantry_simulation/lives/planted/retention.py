"""Faults planted in retention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_store.clocks.store_clock import StoreClock
from broker_store.log.retention import Verdict
from broker_store.process import disk_care
from gantry_simulation.lives.planted.fault import Planted


def _one_more(right: Callable[..., Verdict]) -> Callable[..., Verdict]:
    deleted: list[Verdict] = []

    def judge_oldest(settings: Any, segments: Any, *arguments: Any) -> Verdict:
        verdict = right(settings, segments, *arguments)
        if verdict is Verdict.KEEP and deleted and len(segments) > 1:
            deleted.clear()
            return Verdict.DELETE_FORCED
        if verdict in (Verdict.DELETE_EXPIRED, Verdict.DELETE_FORCED):
            deleted.append(verdict)
        return verdict

    return judge_oldest


def _by_wall_clock(_right: Callable[..., int]) -> Callable[..., int]:
    def since_ms(clock: StoreClock, store_ms: int) -> int:
        return int(clock.wall_s() * 1000) - store_ms

    return since_ms


def _no_pin(_right: Callable[..., int | None]) -> Callable[..., int | None]:
    return lambda *_arguments: None


PLANTED_RETENTION = (
    Planted("retention deletes one segment too many", disk_care, "judge_oldest", _one_more),
    Planted("ages are differences to the wall clock", StoreClock, "since_ms", _by_wall_clock),
    Planted("retention deletes undecided items", disk_care, "lowest_pin", _no_pin),
)
