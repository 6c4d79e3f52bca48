"""The World: one seed, virtual time, and one heap of events that drives every process."""

from __future__ import annotations

import gc
import heapq
import random
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Self

from gantry_simulation.world.trace import Trace

SECOND_NS, MS_NS = 1_000_000_000, 1_000_000
TIE_BITS = 32
COLLECT_EVENTS = 20_000
"""Events between collections of cyclic garbage. An automatic one would end objects at another event in each run."""
KEPT_EVENTS = 2_000
FROZEN_RUNS = 16
"""Runs between collections that also scan what was frozen."""

Action = Callable[[], None]
_collect, _freeze = gc.collect, gc.freeze
_runs = count(1)


def _collect_nothing(generation: int = 2) -> int:  # noqa: ARG001 - as gc.collect
    return 0


def _freeze_nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must not happen, and happened."""

    at_ns: int
    process: str
    what: str


class World:
    """Runs events in the order of their time. The seed decides between events of the same time. Close it, or use it in `with`.

    Everything runs in the calling thread. Time passes only between events.
    """

    def __init__(self, seed: int, *, kept_events: int = KEPT_EVENTS) -> None:
        self.seed = seed
        self.now_ns: int = 0
        self.trace = Trace(kept_events)
        self.violations: list[Violation] = []
        self._events: list[tuple[int, int, int, Action]] = []
        self._sequence = 0
        self._draw_tie = self.rng("ties").getrandbits
        self._thresholds, self._switch_seconds = gc.get_threshold(), sys.getswitchinterval()
        if next(_runs) % FROZEN_RUNS == 0:
            gc.unfreeze()  # some of it is garbage by now: what still lived when a run began
        _collect_garbage()  # what an earlier run left would be frozen and stay
        _freeze()  # what exists by now need not be scanned by each collection
        gc.collect, gc.freeze = (
            _collect_nothing,
            _freeze_nothing,
        )  # processes freeze what they have, and would keep it for ever
        self._chance = random.getstate()
        random.seed(f"{seed}/libraries")  # those that the product uses draw from the module's own generator
        self._at_close: list[Action] = []

    def rng(self, name: str) -> random.Random:
        """Return a stream of random numbers that depends on the seed and this name alone.

        A stream per subject: a draw that one subject makes more does not shift the draws of the others.
        """
        return random.Random(f"{self.seed}/{name}")

    def at(self, when_ns: int, action: Action) -> None:
        """Run `action` at this time, or now if that has passed. The caller ignores an action it no longer wants."""
        self._sequence += 1
        when_ns = max(when_ns, self.now_ns)
        heapq.heappush(self._events, (when_ns, self._draw_tie(TIE_BITS), self._sequence, action))

    def after(self, wait_ns: int, action: Action) -> None:
        """Run `action` after this many nanoseconds."""
        self.at(self.now_ns + wait_ns, action)

    def record(self, process: str, kind: str, detail: object = "") -> None:
        """Add an event of now to the trace."""
        self.trace.add(self.now_ns, process, kind, detail)

    def violate(self, process: str, what: str) -> None:
        """Record a violation. The run continues."""
        self.record(process, "violation", what)
        self.violations.append(Violation(self.now_ns, process, what))

    def at_close(self, action: Action) -> None:
        """Run `action` at `close`."""
        self._at_close.append(action)

    def run_for(self, seconds: float) -> None:
        """Run all events of this span of virtual time."""
        self._run(self.now_ns + round(seconds * SECOND_NS), None)

    def run_until(self, is_so: Callable[[], bool], within: float) -> bool:
        """Run until the condition holds after an event; False when `within` virtual seconds passed first."""
        return is_so() or self._run(self.now_ns + round(within * SECOND_NS), is_so)

    def close(self) -> None:
        """End the run: what killed processes left behind is released now, and garbage is collected."""
        actions, self._at_close = self._at_close, []
        hook = sys.unraisablehook
        sys.unraisablehook = _ignore  # what a dead `finally` awaited is complained about when it is collected
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)  # as in `_collect_garbage`
                never_begun = "coroutine .* was never awaited"
                warnings.filterwarnings("ignore", never_begun, RuntimeWarning)  # killed before its first turn
                for action in actions:
                    action()
                self._events.clear()
                _collect_garbage()
        finally:
            sys.unraisablehook = hook
        gc.collect, gc.freeze = _collect, _freeze
        random.setstate(self._chance)
        gc.set_threshold(*self._thresholds)  # processes set both for all
        sys.setswitchinterval(self._switch_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _run(self, end_ns: int, is_so: Callable[[], bool] | None) -> bool:
        collects, hooks = gc.isenabled(), sys.get_asyncgen_hooks()
        gc.disable()
        try:
            events, take = self._events, heapq.heappop
            while events and events[0][0] <= end_ns:
                self.now_ns, _, number, action = take(events)
                action()
                if number % COLLECT_EVENTS == 0:
                    _collect_garbage()
                if is_so is not None and is_so():
                    return True
            self.now_ns = end_ns
        finally:
            sys.set_asyncgen_hooks(*hooks)  # each turn sets those of its loop
            if collects:
                gc.enable()
        return False


def _collect_garbage() -> None:
    """Collect. Killed processes close no file and no connection."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        _collect()


def _ignore(_error: object) -> None:
    """Do nothing."""
