"""A power cut at every step of receiving and acknowledging: answers hold, what is not done is due, no message vanishes."""

import asyncio
import contextlib
import errno

import pytest
from leasing_side import LeasingSide, item
from sending_side import ScriptedPeer
from simulated_days import chosen_steps, crashes

from broker_store.log.files.simulated_files import Crashed, SimulatedFiles
from gantry_wire.codes import GantryCode
from gantry_wire.private_requests.leases import ItemKind, ItemStatus, LeaseItemsHeader, pack_items

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]
STATES_PER_STEP = 2
COUNT = 16


class Day:
    """Messages, receives, acknowledgements, nacks, expiries and checkpoints, with the answers."""

    def __init__(self) -> None:
        self.files = SimulatedFiles()
        self.sent: set[str] = set()
        self.maybe: set[str] = set()
        """Acknowledged, perhaps not answered."""
        self.acked: set[str] = set()
        self.failed: dict[str, int] = {}
        """Answered nacks by message."""

    async def live(self) -> None:
        side = LeasingSide(self.files)
        for number in range(COUNT):
            self.send(side, f"m{number}", number % 2)
        await side.sending.checkpoints.take()
        for step in range(6):
            given = side.lease(max_messages=5, invisible_ms=2000)
            self.settle(side, given[::2], ItemKind.ACK)
            self.settle(side, given[1::3], ItemKind.NACK)
            if step == 2:
                await side.sending.checkpoints.take()
            side.pass_time(1.5)
            side.note_failures()
        self.settle(side, side.lease(max_messages=4), ItemKind.ACK)
        await side.sending.checkpoints.close()

    def send(self, side: LeasingSide, body: str, queue_id: int) -> None:
        peer = ScriptedPeer()
        side.send(peer, "orders", body.encode(), queue_id, properties={"UNIQ_KEY": f"U{body}"})
        side.flush()
        assert peer.answers[-1].code == 0
        self.sent.add(body)

    def settle(self, side: LeasingSide, given, kind: ItemKind) -> None:
        if not given:
            return
        bodies = [one.body for one in given]
        if kind is ItemKind.ACK:
            self.maybe.update(bodies)
        header = LeaseItemsHeader(group="g", topic="orders")
        opaque = side.ask(side.client, GantryCode.ACK, header, pack_items([item(one, kind) for one in given]))
        side.flush()
        answer = side.answer_to(opaque)
        assert answer is not None
        for body, status in zip(bodies, answer.body, strict=True):
            if status != ItemStatus.DONE:
                continue
            if kind is ItemKind.ACK:
                self.acked.add(body)
            else:
                self.failed[body] = self.failed.get(body, 0) + 1


async def day_until(step: int | None) -> Day:
    day = Day()
    day.files.crash_after = step
    with contextlib.suppress(Crashed):
        await day.live()
    day.files.crash_after = None
    return day


def check(day: Day, disk: SimulatedFiles) -> None:
    side = LeasingSide(disk, 1_700_000_100.0)
    due: dict[str, int] = {}
    if side.topics.find("orders") is None:
        assert not day.sent
        return
    while given := side.lease(max_messages=7):
        for one in given:
            assert one.body not in due, "on lease twice"
            due[one.body] = one.attempt
    assert not day.acked & set(due), "acknowledged, and given again"
    assert day.sent - day.maybe <= set(due), "not acknowledged, and gone"
    for body, attempt in due.items():
        assert attempt > day.failed.get(body, 0), f"{body} lost attempts"
    low = [side.committed(queue_id) or 0 for queue_id in (0, 1)]
    for body in due:
        number = int(body[1:])
        assert number // 2 >= low[number % 2], "the committed offset passed what is not done"


@pytest.mark.crash
@crashes(sampled=24)
async def test_a_power_cut_at_any_step_loses_no_message_and_no_acknowledgement(crashes_max, seed):
    whole = await day_until(None)
    assert len(whole.acked) > 5
    assert whole.failed
    steps = len(whole.files.trace)
    assert steps > 60
    for step in chosen_steps(range(1, steps), crashes_max, seed):
        day = await day_until(step)
        for disk in day.files.crash_states(STATES_PER_STEP, seed=step ^ seed):
            check(day, disk)


@pytest.mark.parametrize("has_sync_failed", [False, True])
async def test_the_committed_offset_passes_no_message_whose_dead_letter_a_power_cut_takes(has_sync_failed):
    side = LeasingSide(flush="async")
    side.set_group(retry_max_times=0)
    side.put("a")
    assert [one.body for one in side.lease(invisible_ms=1000)] == ["a"]
    side.pass_time(1.1)
    async with asyncio.timeout(60):
        while side.committed() != 1:  # the dead letter is visible, and not yet synced
            await asyncio.sleep(0.005)
            side.end_turn()
            side.appends.flush()
    if has_sync_failed:
        side.log.stop_on(OSError(errno.EIO, "injected"))
    saving = asyncio.ensure_future(side.consuming.keeper.save())
    await asyncio.sleep(0)
    side.end_turn()
    await side.consuming.keeper.save_file()
    for disk in side.files.crash_states(16):
        after = LeasingSide(disk, 1_700_000_100.0, flush="async")
        assert after.records("%DLQ%g") or after.lease(), "neither a dead letter nor delivered again"
    saving.cancel()


@pytest.mark.crash
@crashes(sampled=24)
async def test_a_kill_at_any_step_loses_no_message_and_no_acknowledgement(crashes_max, seed):
    steps = len((await day_until(None)).files.trace)
    for step in chosen_steps(range(1, steps), crashes_max, seed):
        day = await day_until(step)
        check(day, day.files.killed())
