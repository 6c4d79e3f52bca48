"""A transaction with several copies of its half in the log is decided once, across kills and rebuilds; see half_copies.py."""

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sending_side import ScriptedPeer
from transactions_side import CLAIM_BODY, COMMIT, ROLLBACK, TransactionsSide

from broker_store.transactions import half_copies
from broker_store.transactions.half_copies import HalfCopies
from broker_store.transactions.half_messages.recent_halves import RecentHalves
from gantry_wire.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from gantry_wire.private_requests.settling import (
    ClaimReplyBody,
    SettleBody,
    SettleHeader,
    SettleItem,
    SettleOutput,
    decode_json,
)
from gantry_wire.private_requests.transactions import TransactionView

pytestmark = pytest.mark.anyio

OPPOSITE = {COMMIT: ROLLBACK, ROLLBACK: COMMIT}
MAGIC_AT = 4
SNAPSHOT = "/store/gantry/transactions.snapshot"


def orders(side):
    return [record.body for record in side.records("orders", 2)]


def rebuilt(side):
    """Open a copy of the disk, and rebuild everything derived."""
    files = side.files.killed()
    files.remove(SNAPSHOT)
    again = TransactionsSide(files, side.wall_s + 1, segment_bytes=side.settings.segment_bytes)
    assert again.store.recovery_start == again.log.min_position
    return again


def reopened(side):
    """Open a copy of the disk as after a kill: from the last checkpoint and the log after it."""
    again = TransactionsSide(side.files.killed(), side.wall_s + 1, segment_bytes=side.settings.segment_bytes)
    assert not again.opening.is_rebuild
    return again


@pytest.mark.parametrize("way", ["recent", "read", "planned"])
@pytest.mark.parametrize("older_first", [True, False])
@pytest.mark.parametrize("first", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("later", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("crash", ["none", "kill", "rebuild"])
async def test_the_first_decision_about_a_half_that_was_sent_twice_counts(
    way, older_first, first, later, crash, monkeypatch
):
    if way != "recent":
        monkeypatch.setattr(RecentHalves, "take", lambda *_: None)
    more = {"DELAY": "0"} if way == "planned" else {}
    side, peer = TransactionsSide(), ScriptedPeer()
    halves = [await side.begin(peer, "K", **more)]
    await side.sending.checkpoints.take()
    halves += [await side.begin(peer, "K", **more)]
    one, other = halves if older_first else halves[::-1]
    assert (await side.end(peer, one, first)).code == 0
    if crash != "none":
        side = reopened(side) if crash == "kill" else rebuilt(side)
    answer = await side.end(peer, other, later, from_transaction_check=True)
    assert answer.code == (0 if later == first else 604), answer.remark
    assert orders(side) == ([b"pay"] if first == COMMIT else [])
    side.transactions.late_copies.turn()
    await side.settled()
    assert side.pin is None, "nothing of it keeps the log"
    assert orders(rebuilt(side)) == orders(side)


async def test_decisions_of_one_turn_about_two_copies_decide_once():
    side, peer = TransactionsSide(), ScriptedPeer()
    halves = [await side.begin(peer, "K") for _ in range(2)]
    before = len(peer.answers)
    for half, decision in zip(halves, (ROLLBACK, COMMIT), strict=True):
        side.ask(peer, 37, side.end_header(half, decision))
    await side.settled()
    assert [answer.code for answer in peer.answers[before:]] == [0, 604]
    assert orders(side) == []


async def test_a_copy_that_comes_after_the_decision_is_recognized_and_settled():
    side, peer = TransactionsSide(), ScriptedPeer()
    await side.end(peer, await side.begin(peer, "K"), ROLLBACK)
    late = await side.begin(peer, "K")
    assert side.pin is not None
    side = rebuilt(await checkpointed(side))
    side.transactions.late_copies.turn()
    await side.settled()
    assert side.pin is None
    assert (await side.end(peer, late, COMMIT)).code == 604
    assert (await side.end(peer, late, ROLLBACK)).code == 0
    assert orders(side) == []


def damaged(side, topic, place=-1):
    """Change a bit in a record of a topic, and rebuild everything derived from what is left."""
    position = side.records(topic, 2 if topic == "orders" else 0)[place].position
    path = side.log.segments[-1].path
    side = TransactionsSide(side.files.killed(), side.wall_s + 1)  # its records are confirmed on the disk
    side.files.flip(path, position + MAGIC_AT, 1)
    return rebuilt(side)


@pytest.mark.parametrize("decision", ["commit", "rollback"])
@pytest.mark.parametrize("is_parked", [False, True])
@pytest.mark.parametrize("reason", ["", "by hand"])
async def test_the_decision_is_known_though_the_message_is_damaged(decision, is_parked, reason):
    side, peer = TransactionsSide(), ScriptedPeer()
    half = await side.begin(peer, "K")
    if is_parked:
        await side.park(peer, half.queue_offset)
    body = {"key": "K", "decision": decision, "reason": reason, "by": "me"}
    assert (await side.ask_json(peer, 9021, body, TransactionView))[0] == 0
    if decision == "commit":
        side = damaged(side, "orders")
        assert orders(side) == []
    else:
        side = rebuilt(side)
    _, view = await side.ask_json(peer, 9024, {"key": "K"}, TransactionView)
    assert view.state == ("committed" if decision == "commit" else "rolledBack")


@pytest.mark.parametrize("is_parked", [False, True])
async def test_a_damaged_copy_between_two_others_decides_nothing(is_parked):
    side, peer = TransactionsSide(), ScriptedPeer()
    half = await side.begin(peer, "K")
    checked = await side.check(peer, half.queue_offset)
    await (side.park(peer, checked) if is_parked else side.check(peer, checked, 2))
    side = damaged(side, HALF_TOPIC, checked)
    side.transactions.late_copies.turn()
    await side.settled()
    _, view = await side.ask_json(peer, 9024, {"key": "K"}, TransactionView)
    assert view.state == ("parked" if is_parked else "open")
    assert (await side.end(peer, half, COMMIT)).code == 0
    assert orders(side) == [b"pay"]


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
async def test_the_decision_is_known_though_the_copy_that_it_was_about_is_damaged(decision):
    side, peer = TransactionsSide(), ScriptedPeer()
    half = await side.begin(peer, "K")
    checked = await side.check(peer, half.queue_offset)
    assert (await side.end(peer, half, decision)).code == 0
    side = damaged(side, HALF_TOPIC, checked)
    assert (await side.end(peer, half, decision)).code == 0
    assert (await side.end(peer, half, OPPOSITE[decision])).code == 604
    assert orders(side) == ([b"pay"] if decision == COMMIT else [])


async def with_damaged_copy(peer, move):
    """Open a store from a checkpoint above a half's copy, which is damaged. Returns it and the first half."""
    side = TransactionsSide()
    half = await side.begin(peer, "K")
    offset = await getattr(side, move)(peer, half.queue_offset)
    other = await side.begin(peer, "L")  # a start compares the last unit of each queue with its record
    await getattr(side, move)(peer, other.queue_offset)
    await side.sending.checkpoints.take()
    topic = HALF_TOPIC if move == "check" else TRANS_CHECK_MAX_TIME_TOPIC
    side.files.flip(side.log.segments[-1].path, side.records(topic)[offset].position + MAGIC_AT, 1)
    return reopened(side), half


@pytest.mark.parametrize(("move", "state"), [("check", "open"), ("park", "parked")])
async def test_a_transaction_whose_newest_copy_is_damaged_is_not_called_rolled_back(move, state):
    peer = ScriptedPeer()
    side, half = await with_damaged_copy(peer, move)
    answer = await side.end(peer, half, COMMIT)
    assert (answer.code, answer.ext.get("gantryCode")) == (13, None), answer.remark
    assert answer.remark.startswith("the transaction is still open: ")
    _, view = await side.ask_json(peer, 9024, {"key": "K"}, TransactionView)
    assert view.state == state
    assert (await side.end(peer, half, ROLLBACK)).code == 0
    _, view = await side.ask_json(peer, 9024, {"key": "K"}, TransactionView)
    assert view.state == "rolledBack"
    assert [of[2] for of in side.store.states.transactions.known()[0].values()] == ["L"]


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("delay", [{}, {"DELAY": "18"}])
async def test_a_commit_that_is_no_longer_remembered_is_known_though_its_message_is_damaged(
    decision, delay, monkeypatch
):
    monkeypatch.setattr(half_copies, "DECIDED_KEPT", 1)
    side, peer = TransactionsSide(), ScriptedPeer()
    halves = [await side.begin(peer, key, **delay) for key in "KLM"]
    for half, how in zip(halves, (decision, COMMIT, COMMIT), strict=True):
        assert (await side.end(peer, half, how)).code == 0
    topic, queue_id = ("SCHEDULE_TOPIC_XXXX", 17) if delay else ("orders", 2)
    await side.sending.checkpoints.take()
    side.files.flip(side.log.segments[-1].path, side.records(topic, queue_id)[0].position + MAGIC_AT, 1)
    side = reopened(side)
    assert (await side.end(peer, halves[0], decision)).code == 0
    assert (await side.end(peer, halves[0], OPPOSITE[decision])).code == 604


@pytest.mark.parametrize("move", ["check", "park"])
async def test_a_half_with_damaged_properties_is_decided_like_others(move, monkeypatch):
    monkeypatch.setattr(RecentHalves, "take", lambda *_: None)
    side, peer = TransactionsSide(), ScriptedPeer()
    halves = [await side.begin(peer, key, color="blue") for key in "KL"]
    for half in halves:
        position = int(half.msg_id[-16:], 16)
        at = position + side.log.read_record(position).index(b"blue")
        side.files.flip(side.log.segments[-1].path, at, 0x80)
    await getattr(side, move)(peer, halves[1].queue_offset)
    assert [(await side.end(peer, half, COMMIT)).code for half in halves] == [0, 0]
    assert orders(side) == [b"pay", b"pay"]


@pytest.mark.parametrize("move", ["check", "park"])
async def test_a_transaction_is_committed_though_the_index_hides_its_newest_copy(move, monkeypatch):
    side, peer = TransactionsSide(), ScriptedPeer()
    half = await side.begin(peer, "K")
    await getattr(side, move)(peer, half.queue_offset)
    index, first = side.sending.dispatch.keys, int(half.msg_id[-16:], 16)
    monkeypatch.setattr(index, "lookup", lambda *_: [first])
    assert (await side.end(peer, half, COMMIT)).code == 0
    assert orders(side) == [b"pay"]


async def checkpointed(side):
    await side.sending.checkpoints.take()
    return side


@pytest.mark.parametrize("other", [{"group": "other"}, {"topic": "others"}])
async def test_halves_of_other_groups_and_topics_are_other_transactions(other):
    side, peer = TransactionsSide(), ScriptedPeer()
    first, second = await side.begin(peer, "K"), await side.begin(peer, "K", **other)
    assert (await side.end(peer, first, COMMIT)).code == 0
    group = other.get("group", "pg")
    assert (await side.end(peer, second, ROLLBACK, producer_group=group)).code == 0
    answer = await side.end(peer, first, COMMIT)
    assert answer.code == 0, answer.remark
    assert orders(side) == [b"pay"]


async def test_a_decision_by_id_decides_every_copy():
    side, peer = TransactionsSide(), ScriptedPeer()
    first, _ = await side.begin(peer, "K"), await side.begin(peer, "K")
    code, view = await side.ask_json(peer, 9021, {"key": "K", "decision": "rollback"}, TransactionView)
    assert (code, view.state) == (0, "rolledBack")
    assert (await side.end(peer, first, COMMIT)).code == 604
    code, view = await side.ask_json(peer, 9024, {"key": "K"}, TransactionView)
    assert view.state == "rolledBack"
    assert orders(side) == []


async def test_a_parked_copy_is_decided_by_another_ones_commit():
    side, peer = TransactionsSide(), ScriptedPeer()
    first, second = await side.begin(peer, "K"), await side.begin(peer, "K")
    await side.park(peer, first.queue_offset)
    assert (await side.end(peer, second, COMMIT)).code == 0
    code, fields = await side.ask_json(peer, 9021, {"key": "K", "decision": "rollback"})
    assert (code, fields["gantryCode"]) == (604, "TRANSACTION_DECIDED")
    side.transactions.late_copies.turn()
    await side.settled()
    assert side.store.states.transactions.known()[0] == {}
    assert orders(side) == [b"pay"]


async def test_a_checkers_decision_about_a_copy_is_refused_once_another_is_decided():
    side, peer = TransactionsSide(), ScriptedPeer()
    first, second = await side.begin(peer, "K"), await side.begin(peer, "K")
    await side.end(peer, second, COMMIT)
    with pytest.raises(AssertionError, match="already"):
        await side.check(peer, first.queue_offset)


async def test_the_only_copy_of_a_transaction_is_not_superseded():
    side, peer = TransactionsSide(), ScriptedPeer()
    half = await side.begin(peer, "K")
    with pytest.raises(AssertionError, match="no other copy"):
        await side.supersede(peer, half.queue_offset)
    assert (await side.end(peer, await side.begin(peer, "K"), COMMIT)).code == 0
    assert await side.supersede(peer, half.queue_offset) == 1
    assert orders(side) == [b"pay"]


async def test_the_decisions_remembered_are_bounded_and_the_newest(monkeypatch):
    monkeypatch.setattr(half_copies, "DECIDED_KEPT", 3)
    side, peer = TransactionsSide(), ScriptedPeer()
    for key in "abcde":
        await side.end(peer, await side.begin(peer, key), COMMIT)
    copies, decided = side.store.states.transactions.known()
    assert (copies, [row[2] for row in decided]) == ({}, ["c", "d", "e"])


# --- random lives ------------------------------------------------------------------------------------------

keys, which = st.sampled_from(["K", "L"]), st.integers(0, 3)
topics = st.sampled_from(["orders", "others"])
step = st.one_of(
    st.tuples(st.just("begin"), keys, topics),
    st.tuples(st.just("begin"), keys, topics),
    st.tuples(st.sampled_from(["commit", "rollback", "check", "park", "supersede"]), keys, topics, which),
    st.tuples(st.sampled_from(["decide", "reason"]), keys, st.sampled_from(["commit", "rollback"])),
    st.tuples(st.sampled_from(["checkpoint", "kill", "rebuild", "late_copies"])),
)


class Life:
    """Halves sent repeatedly, and the answers about their transactions."""

    def __init__(self):
        self.side, self.peer = TransactionsSide(flush=random.choice(["sync", "async"])), ScriptedPeer()
        self.halves: dict[tuple[str, str], list] = {}
        self.answered: dict[tuple[str, str], str] = {}

    async def do(self, what, *about):
        await getattr(self, what)(*about)
        self.check_promises()

    async def begin(self, key, topic):
        half = await self.side.begin(self.peer, key, topic=topic)
        self.halves.setdefault((key, topic), []).append(half)

    async def commit(self, key, topic, number):
        await self._end(key, topic, number, COMMIT, "commit")

    async def rollback(self, key, topic, number):
        await self._end(key, topic, number, ROLLBACK, "rollback")

    async def _end(self, key, topic, number, code, decision):
        halves = self.halves.get((key, topic))
        if halves:
            answer = await self.side.end(self.peer, halves[number % len(halves)], code)
            assert answer.code in (0, 604), answer.remark
            first = (
                self.answered.setdefault((key, topic), decision)
                if answer.code == 0
                else self.answered[key, topic]
            )
            assert (first == decision) == (answer.code == 0), "the first decision counts"

    async def decide(self, key, decision, reason=""):
        body = {"key": key, "decision": decision, "reason": reason, "by": "me"}
        code, view = await self.side.ask_json(self.peer, 9021, body, TransactionView)
        if code == 0:
            assert self.answered.setdefault((key, view.topic), decision) == decision

    async def reason(self, key, decision):
        await self.decide(key, decision, "by hand")

    async def check(self, key, topic, number):
        await self._move(key, topic, number, HALF_TOPIC, "checked")

    async def park(self, key, topic, number):
        await self._move(key, topic, number, TRANS_CHECK_MAX_TIME_TOPIC, "parked")

    async def supersede(self, key, topic, number):
        halves = self.halves.get((key, topic), [])
        if len(halves) > 1 and number % len(halves) < len(halves) - 1:
            await self._move(key, topic, number, None, "superseded")

    async def _move(self, key, topic, number, to, outcome):
        """Settle a copy as a checker does, if still possible. Only `superseded` requires that another copy continues."""
        side, halves = self.side, self.halves.get((key, topic))
        if not halves:
            return
        offset = halves[number % len(halves)].queue_offset
        known = side.store.states.transactions.known()[0]
        rest = [copy for copy, of in known.items() if of == ("pg", topic, key) and copy.offset != offset]
        if outcome == "superseded" and not rest:
            return
        claim = {"owner": "c", "address": "127.0.0.1:1", "ttlMs": "3000"}
        side.ask(self.peer, 9001, claim, CLAIM_BODY)
        epoch = decode_json(self.peer.answers[-1].body, ClaimReplyBody).claims[0].epoch
        half = side.records(HALF_TOPIC)[offset]
        outputs = [] if to is None else [SettleOutput(to, 0, set={"x": "y"})]
        op = SettleOutput(
            OP_HALF_TOPIC, 0, body=None, body_base64=b"%d" % offset, set={"TAGS": "d"}, properties="none"
        )
        item = SettleItem(offset, half.position, [*outputs, op], outcome)
        header = SettleHeader(topic=HALF_TOPIC, queue_id=0, epoch=epoch)
        side.ask(self.peer, 9003, header, msgspec.json.encode(SettleBody([item])))
        await side.settled()

    async def checkpoint(self):
        await self.side.sending.checkpoints.take()

    async def kill(self):
        self.side = TransactionsSide(self.side.files.killed(), self.side.wall_s + 1)

    async def rebuild(self):
        if self.side.files.exists(SNAPSHOT):
            self.side = rebuilt(self.side)

    async def late_copies(self):
        self.side.transactions.late_copies.turn()
        await self.side.settled()
        copies, decided = self.side.store.states.transactions.known()
        ended = {row[:3] for row in decided}
        assert not [copy for copy, of in copies.items() if of in ended]

    def check_promises(self):
        for topic in ("orders", "others"):
            found = [record.property_map()["UNIQ_KEY"] for record in self.side.records(topic, 2)]
            committed = [
                key for (key, of), answered in self.answered.items() if of == topic and answered == "commit"
            ]
            assert sorted(found) == sorted(committed), "a commit is visible once, a rollback never"


@settings(deadline=None, max_examples=60)
@given(st.lists(step, max_size=14), st.integers(0, 2**32))
def test_lives_with_halves_sent_again_decide_each_transaction_once(steps, seed):
    import asyncio

    random.seed(seed)

    async def live():
        life = Life()
        await life.checkpoint()
        for what, *about in steps:
            await life.do(what, *about)
        known = life.side.store.states.transactions.known()
        assert reopened(life.side).store.states.transactions.known() == known, "from snapshot and log"
        await life.checkpoint()
        assert reopened(life.side).store.states.transactions.known() == known, "from the snapshot alone"
        assert rebuilt(life.side).store.states.transactions.known() == known, "from the log alone"

    asyncio.run(live())


@given(st.binary(max_size=60))
def test_a_snapshot_of_another_format_is_refused_and_loads_nothing(data):
    copies = HalfCopies(queues=None, settled=None)  # type: ignore[arg-type]
    if not copies.load(data, 0):
        assert copies._decided == {} == copies._open
