"""A power cut or a kill at every step of changes: what was answered is known, and nothing is known that nobody asked for."""

import asyncio
import contextlib
import json

import pytest
from access_side import AccessSide
from simulated_days import chosen_steps, crashes

from broker_store.log.files.simulated_files import Crashed, SimulatedFiles
from gantry_wire.errors import RefusedRequest

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300), pytest.mark.crash]
STATES_PER_STEP = 2
NAMES = ("alice", "bob", "carol")


def policy(topic: str) -> bytes:
    entry = {"resource": f"Topic:{topic}", "actions": ["Pub"], "decision": "Deny"}
    return json.dumps({"policies": [{"entries": [entry]}]}).encode()


class Day:
    """Changes and checkpoints, with the answers."""

    def __init__(self, flush: str) -> None:
        self.flush = flush
        self.files = SimulatedFiles()
        self.answered: dict[tuple[str, str], bytes | None] = {}
        """Entries as of the last answered change."""
        self.possible: list[dict[tuple[str, str], bytes | None]] = [{}]
        """The entries after each record of the change under way."""

    async def live(self) -> None:
        self.side = side = AccessSide(self.files, flush=self.flush)
        for round_ in range(3):
            for name in NAMES:
                await self.change(3001, {"username": name}, b'{"password":"secret"}')
                await self.change(3006, {"subject": f"User:{name}"}, policy(f"t{round_}"))
            await side.finish(side.sending.checkpoints.take())
            await self.change(3002, {"username": "alice"}, b'{"userStatus":"disable"}')
            await self.change(3008, {"subject": "User:bob", "resource": f"Topic:t{round_}"})
            await self.change(3003, {"username": "carol"})
        await side.finish(side.sending.checkpoints.close())

    async def change(self, code: int, header: dict[str, str], body: bytes = b"") -> None:
        await self.side.asked(code, header, body)
        self.answered = self.side.entries


async def day_until(step: int | None, flush: str) -> Day:
    day, before = Day(flush), asyncio.all_tasks()
    day.files.crash_after = step
    with contextlib.suppress(Crashed, RefusedRequest, TimeoutError):
        await day.live()
    day.files.crash_after = None
    for task in asyncio.all_tasks() - before:
        task.cancel()
    await asyncio.sleep(0)
    return day


def check(day: Day, disk: SimulatedFiles, states: list[dict[tuple[str, str], bytes | None]]) -> None:
    """A store opened from the disk knows what was answered, and at most the next change."""
    found = AccessSide(disk, 1_700_000_100.0, flush=day.flush).entries
    # compare without secrets: each run seals with other nonces
    shown = [_shown(state) for state in states]
    at = shown.index(_shown(day.answered))
    assert _shown(found) in shown[at:], "an answered change is lost, or something else is known"


def _shown(entries: dict[tuple[str, str], bytes | None]) -> dict[tuple[str, str], object]:
    return {key: None if record is None else _content(record) for key, record in entries.items()}


def _content(record: bytes) -> object:
    return {name: value for name, value in json.loads(record).items() if name != "secrets"}


async def states_of(flush: str) -> list[dict[tuple[str, str], bytes | None]]:
    """Return the entries after each record of an undisturbed day."""
    day = Day(flush)
    seen: list[dict[tuple[str, str], bytes | None]] = [{}]
    usual = AccessSide.__init__

    def watched(self: AccessSide, *arguments, **settings) -> None:
        usual(self, *arguments, **settings)
        news = self.access.log._on_news

        def note(entry) -> None:
            news(entry)
            seen.append(self.entries)

        self.access.log._on_news = note

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AccessSide, "__init__", watched)
        await day.live()
    return seen


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("flush", ["sync", "async"])
@crashes(sampled=24)
async def test_a_power_cut_at_any_step_loses_no_answered_change(crashes_max, seed, flush):
    states = await states_of(flush)
    whole = await day_until(None, flush)
    steps = len(whole.files.trace)
    assert steps > 60
    for step in chosen_steps(range(1, steps), crashes_max, seed):
        day = await day_until(step, flush)
        for disk in [day.files.killed(), *day.files.crash_states(STATES_PER_STEP, seed=step ^ seed)]:
            check(day, disk, states)
