"""A leader whose log has decayed, in a group of real processes: a request that needs a damaged record gets it from another replica."""

import msgspec
import pytest
from group_stores import Sender
from test_store_group_disks import flip, logs_are_equal, moved_to

from gantry_wire.codes import GantryCode, RequestCode
from gantry_wire.headers.messages import (
    ConsumerSendBackHeader,
    EndTransactionHeader,
    QueryMessageHeader,
    SendReplyHeader,
    ViewMessageHeader,
)
from gantry_wire.messages.properties import format_properties
from gantry_wire.names import SCHEDULE_TOPIC
from gantry_wire.private_requests.settling import (
    ClaimBody,
    ClaimHeader,
    ClaimQueue,
    ClaimReplyBody,
    SettleBody,
    SettleHeader,
    SettleItem,
    SettleOutput,
    SettleReplyBody,
    decode_json,
)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
SIZE_AT, BODY_AT = 3, 1000
COMMIT = 8


class Stored:
    """Messages that the leader took, each with a body of its own."""

    def __init__(self, sender):
        self._sender = sender
        self.plain = [
            self.send(b"m%d" % number, UNIQ_KEY=f"U{number}", KEYS=f"k{number}") for number in range(4)
        ]
        self.half = self.send(b"half", TRAN_MSG="true", PGROUP="pg", UNIQ_KEY="T")
        self.delayed = self.send(b"delayed", DELAY="1", UNIQ_KEY="D")

    def send(self, name, **properties):
        answer = self._sender.send(name + bytes(2000), properties=format_properties(properties).decode())
        assert answer.code == 0, answer.remark
        return answer.read(SendReplyHeader)


def position_of(reply):
    return int(reply.msg_id[-16:], 16)


@pytest.fixture
def decayed(group):
    """A leader whose log was damaged while it was away, and what it took before."""
    group.wait_for_set(3)
    first = group.leader()
    stored = Stored(Sender(first.port))
    store = next(one for one in group.stores.values() if one is not first)
    group.wait(lambda: store.state()["confirmOffset"] > position_of(stored.delayed), "the follower is behind")
    assert store.stop() == 0
    flip(store, position_of(stored.plain[0]) + BODY_AT)
    flip(store, position_of(stored.plain[1]) + SIZE_AT)
    for reply in stored.plain[2], stored.half, stored.delayed:
        flip(store, position_of(reply) + BODY_AT)
    store.start()
    moved_to(group, store)
    group.wait_for_set(3)
    return store, stored


def test_queries_decisions_retries_and_deliveries_get_damaged_records_from_another_replica(group, decayed):
    store, stored = decayed
    sender = Sender(store.port)
    delivered = settle(sender, stored.delayed)
    assert delivered == "settled"
    half = stored.half
    committed = sender.ask(
        RequestCode.END_TRANSACTION,
        EndTransactionHeader(
            producer_group="pg", tran_state_table_offset=half.queue_offset, commit_log_offset=position_of(half),
            commit_or_rollback=COMMIT, from_transaction_check=False, msg_id=half.transaction_id, transaction_id=half.transaction_id,
        ),
    )  # fmt: skip
    assert committed.code == 0, committed.remark
    back = ConsumerSendBackHeader(offset=position_of(stored.plain[2]), group="g", delay_level=1)
    sent_back = sender.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)
    assert sent_back.code == 0, sent_back.remark
    found = sender.ask(
        12,
        QueryMessageHeader(topic="orders", key="k1", max_num=32, begin_timestamp=0, end_timestamp=1 << 60),
    )
    assert (found.code, found.body.count(b"m1")) == (0, 1), found.remark
    view = sender.ask(33, ViewMessageHeader(offset=position_of(stored.plain[0])))
    assert (view.code, view.body.count(b"m0")) == (0, 1), view.remark
    bodies = {body.rstrip(b"\0") for body in sender.all_bodies()}
    assert bodies == {b"m0", b"m1", b"m2", b"m3", b"half", b"delayed"}
    assert logs_are_equal(group)


def settle(sender, reply):
    """Deliver the delayed message as a scheduler does. Returns its status."""
    queue = ClaimQueue(SCHEDULE_TOPIC, 0)
    claim = ClaimHeader(owner="s", address="127.0.0.1:1", ttl_ms=3000)
    answer = sender.ask(GantryCode.CLAIM_QUEUES, claim, msgspec.json.encode(ClaimBody([queue])))
    epoch = decode_json(answer.body, ClaimReplyBody).claims[0].epoch
    output = SettleOutput("orders", 0, drop=("DELAY", "REAL_TOPIC", "REAL_QID"))
    body = msgspec.json.encode(SettleBody([SettleItem(0, position_of(reply), [output])]))
    answer = sender.ask(GantryCode.SETTLE, SettleHeader(topic=SCHEDULE_TOPIC, queue_id=0, epoch=epoch), body)
    assert answer.code == 0, answer.remark
    return decode_json(answer.body, SettleReplyBody).results[0].status


def test_a_position_where_no_record_begins_is_not_found_at_once(group, decayed):
    store, stored = decayed
    sender = Sender(store.port, seconds=3.0)
    for number in range(20):
        answer = sender.ask(33, ViewMessageHeader(offset=position_of(stored.plain[3]) + 10 + number))
        assert answer.code == 1, answer.remark
    view = sender.ask(33, ViewMessageHeader(offset=position_of(stored.plain[0])))
    assert (view.code, view.body.count(b"m0")) == (0, 1), view.remark
