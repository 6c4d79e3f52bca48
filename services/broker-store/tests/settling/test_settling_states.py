"""The table of an item's states, cell by cell: creates each state in a store and asks each request."""

import re
from pathlib import Path

import msgspec
import pytest
from sending_side import ScriptedPeer
from settling_side import SettlingSide, deliver

from broker_store.settling.states import ANSWERS, Ask, ItemState
from gantry_wire.codes import GantryCode
from gantry_wire.names import TIMER_TOPIC
from gantry_wire.private_requests.settling import (
    ClaimHeader,
    ClaimHolderHeader,
    MessageEventsHeader,
    ReleaseClaimHeader,
    SettledStateHeader,
    SettleHeader,
    SettleItem,
)

pytestmark = pytest.mark.anyio
DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "protocol.md"


def brought_about(state: ItemState) -> tuple[SettlingSide, SettleItem]:
    """Return a store with an item in a state."""
    peer, settings = ScriptedPeer(), {"segment_bytes": 1024 * 1024}
    side = SettlingSide(**settings)
    side.topics.ensure("orders", 4)
    side.delayed(peer, b"item")
    item = side.item(0)
    if state is not ItemState.WAITING:
        side.pass_time(2)
    if state is ItemState.ABSENT:
        item.position += 1
    elif state is ItemState.DECIDED:
        side.settled([side.item(0)])
    elif state is ItemState.DECIDING:
        side.settle([side.item(0)])
        side.end_turn()
    elif state is ItemState.REMOVED:
        for _ in range(9):
            side.send(peer, body=b"x" * 250_000)
            side.flush()
        side.log.drop_first_segment()
        for queue in side.queues.all():
            queue.units.delete_before(side.log.min_position)
    return side, item


@pytest.mark.parametrize("ask", Ask)
@pytest.mark.parametrize("state", ItemState)
async def test_every_state_answers_every_request_as_the_table_says(state, ask):
    side, item = brought_about(state)
    before = side.outcomes()
    item.outputs = [] if ask is Ask.DROP else [deliver()]
    item.force = ask is Ask.FORCE
    answers = side.settle([item])
    side.flush()
    assert answers[0][0].status == ANSWERS[state][ask]
    delivers = answers[0][0].status == "settled" and ask is not Ask.DROP
    assert len(side.outcomes()) == len(before) + delivers
    assert side.settled([item])[0].status in (
        {"already"} if answers[0][0].status in {"settled", "already"} else {answers[0][0].status}
    )


def test_the_table_in_the_documentation_is_this_one():
    rows = {}
    for line in DOCUMENT.read_text().splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        if len(cells) == 1 + len(Ask) and cells[0] in {state.value for state in ItemState}:
            rows[cells[0]] = cells[1:]
    assert rows == {state.value: [ANSWERS[state][ask] for ask in Ask] for state in ItemState}


HEADERS = {
    9001: ClaimHeader,
    9002: ReleaseClaimHeader,
    9003: SettleHeader,
    9004: SettledStateHeader,
    9005: ClaimHolderHeader,
    9040: MessageEventsHeader,
}


@pytest.mark.parametrize("code", HEADERS)
def test_documented_fields_are_the_fields_of_the_header(code):
    (row,) = re.findall(
        rf"^\| {code} \| {GantryCode(code).name} \| ([^|]*) \|", DOCUMENT.read_text(), re.MULTILINE
    )
    fields = {name: bool(required) for name, required in re.findall(r"`(\w+)`(!?)", row)}
    assert fields == {info.encode_name: info.required for info in msgspec.structs.fields(HEADERS[code])}


async def test_a_decision_taken_back_for_lack_of_space_does_not_count():
    side, peer = SettlingSide(), ScriptedPeer()
    side.topics.ensure("orders", 4)
    body = b"item" * 50_000
    side.delayed(peer, body)
    side.pass_time(2)
    capacity, side.files.capacity = side.files.capacity, side.files.used_bytes()
    answers = side.settle([side.item(0, deliver())])
    side.end_turn()
    assert answers[0].fields["gantryCode"] == "DISK_FULL"
    assert not side.settling.deciding
    side.files.capacity = capacity
    side.log.mark_disk_full(full=False)
    assert side.settled([side.item(0, deliver())])[0].status == "settled"
    assert side.outcomes() == [(body, 0)]
    assert side.reopen().outcomes() == [(body, 0)]


def timed(side, peer, **properties):
    side.send(peer, body=b"timed", properties={"UNIQ_KEY": "T", **properties})
    side.flush()
    return side.item(0, deliver(drop=("REAL_TOPIC", "REAL_QID", "TIMER_OUT_MS")), topic=TIMER_TOPIC)


async def test_an_instant_waits_for_the_wall_clock_even_when_store_time_has_passed_it():
    side, peer = SettlingSide(), ScriptedPeer()
    side.topics.ensure("orders", 4)
    instant = int(side.wall_s * 1000) + 60_000
    item = timed(side, peer, TIMER_DELIVER_MS=str(instant))
    side.wall_s += 3600
    side.clock.now_ms()  # store time has passed the instant for ever
    side.wall_s -= 3600
    assert side.settled([item], topic=TIMER_TOPIC)[0].status == "early"
    side.pass_time(61)
    assert side.settled([item], topic=TIMER_TOPIC)[0].status == "settled"


async def test_a_delay_runs_in_store_time_whatever_the_wall_clock_does():
    side, peer = SettlingSide(), ScriptedPeer()
    side.topics.ensure("orders", 4)
    item = timed(side, peer, TIMER_DELAY_MS="60000")
    side.wall_s -= 3600
    side.pass_time(59)
    assert side.settled([item], topic=TIMER_TOPIC)[0].status == "early"
    side.pass_time(2)
    assert side.settled([item], topic=TIMER_TOPIC)[0].status == "settled"
