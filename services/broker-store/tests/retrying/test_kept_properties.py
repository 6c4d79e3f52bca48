"""The properties of a message survive a wait, a send-back, a long nack and death.

Each way lists what may change or be added. Anything else is a loss or a leak.
"""

import asyncio

import pytest
from consumers_side import Consumers
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from leasing_side import LeasingSide, item
from sending_side import ScriptedPeer, SendingSide

from broker_store.retrying.send_back import Decision, SentBack, copy_of
from gantry_wire.codes import GantryCode
from gantry_wire.names import SCHEDULE_TOPIC, TIMER_TOPIC
from gantry_wire.private_requests.leases import ItemKind, LeaseItemsHeader, pack_items
from gantry_wire.records.message_record import Record

pytestmark = pytest.mark.anyio
OURS = {"MSG_REGION", "TRACE_ON", "CLUSTER"}
"""Properties that the store adds to every send without them."""
ORIGIN = {"RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "__GANTRY_ORIGIN"}
DIED = {"__GANTRY_DLQ_REASON", "__GANTRY_DLQ_ATTEMPTS", "__GANTRY_DLQ_CONSUMER"}
PLACE = {"REAL_TOPIC", "REAL_QID"}
text = st.text(
    st.characters(exclude_characters="\x00\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=8
)
names = st.one_of(
    st.sampled_from(
        ["TAGS", "KEYS", "WAIT", "INSTANCE_ID", "BUYER_ID", "__SHARDINGKEY", "CORRELATION_ID", "TTL", "TRACE_ON",
         "REPLY_TO_CLIENT", "MSG_TYPE", "TRACE_CONTEXT", "traceparent", "DELAYED", "xDELAY", "AREAL_TOPIC", "EXTEND_UNIQ_INFO"]
    ),
    text.filter(lambda name: not name.startswith("__") and name.isascii() and name.isalnum()),
)  # fmt: skip
maps = st.dictionaries(names, text, max_size=6).map(
    lambda named: {
        name: value for name, value in named.items() if name not in {"DELAY", "PGROUP", "TRAN_MSG"}
    }
)


def compare(record: Record, sent: dict[str, str], changed: dict[str, str], added: set[str]) -> None:
    """Assert that a record has the sent properties, apart from allowed changes, and nothing else than allowed additions."""
    found, wanted = record.property_map(), {**sent, **changed}
    assert {name: found.get(name) for name in wanted} == wanted
    assert found.keys() - wanted.keys() <= added | OURS | {"__GANTRY_SETTLED"}


def stored(side: SendingSide, sent: dict[str, str]) -> Record:
    side.send(ScriptedPeer(), "orders", b"m", properties=sent)
    side.flush()
    return side.records("orders")[-1]


@given(maps, st.booleans(), st.sampled_from([None, "3"]))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=40)
@example({}, False, "3")
def test_a_sent_back_or_dead_copy_keeps_the_sent_properties(sent, is_dead, delay):
    async def live():
        consumers = Consumers()
        side, named = consumers.side, {"UNIQ_KEY": "U", **sent}
        record = stored(side, named)
        if delay is not None:  # as a delivered message of a level
            raw = record.properties + b"DELAY\x013\x02REAL_TOPIC\x01orders\x02REAL_QID\x010\x02"
            record = record._replace(properties=raw)
        fate = Decision(True, 0, "used up") if is_dead else Decision(False, 5, "")
        asked = SentBack(16, 5, "c", "")
        copy = copy_of(record, fate, asked, side.queues.open("%RETRY%g", 0), side.sending.targets.mode)
        record = record._replace(properties=copy.properties)
        compare(
            record,
            named,
            {"WAIT": "false", "DELAY": "0" if is_dead else "5"},
            ORIGIN | (DIED if is_dead else set()),
        )

    asyncio.run(live())


@given(maps)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=30)
def test_a_delayed_or_timed_message_keeps_the_sent_properties(sent):
    async def live():
        side, named = SendingSide(), {"UNIQ_KEY": "U", **sent}
        for more in ({"DELAY": "2"}, {"TIMER_DELAY_SEC": "9"}):
            side.send(ScriptedPeer(), "orders", b"m", properties={**named, **more})
        side.flush()
        compare(side.records(SCHEDULE_TOPIC, 1)[0], named, {"DELAY": "2", "__GANTRY_DELAY_MS": "5000"}, PLACE)
        compare(side.records(TIMER_TOPIC)[0], named, {"TIMER_DELAY_SEC": "9"}, PLACE | {"TIMER_OUT_MS"})

    asyncio.run(live())


@given(maps, st.booleans())
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=25)
def test_a_long_nack_and_a_dead_letter_keep_the_sent_properties(sent, is_dead):
    async def live():
        side, named = LeasingSide(), {"UNIQ_KEY": "U", **sent}
        named |= {} if is_dead else {"DELAY": "0"}  # no delay, though the sender set it
        side.set_group(retry_max_times=0 if is_dead else 16)
        record = stored(side, named)
        (one,) = side.lease()
        assert one.record.position == record.position
        back = item(one, ItemKind.NACK, 0 if is_dead else 600_000)
        side.ask(side.client, GantryCode.ACK, LeaseItemsHeader(group="g", topic="orders"), pack_items([back]))
        for _ in range(40):
            side.flush()
            await asyncio.sleep(0.002)
            if side.records("%DLQ%g" if is_dead else TIMER_TOPIC):
                break
        if is_dead:
            compare(side.records("%DLQ%g")[0], named, {}, ORIGIN | DIED)
        else:
            compare(
                side.records(TIMER_TOPIC)[0], named, {}, ORIGIN | PLACE | {"TIMER_OUT_MS", "TIMER_DELAY_MS"}
            )

    asyncio.run(live())
