"""No path stores a property that only the store may write, whatever else the sender supplies and wherever it stands."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sending_side import ScriptedPeer, SendingSide, send_header

from broker_store.commit.stamp import STORE_ONLY, Stamp
from broker_store.settling.decided.mark import MARK, read_mark
from gantry_wire.codes import RequestCode
from gantry_wire.headers.messages import SendHeader
from gantry_wire.messages.batch import BatchItem, encode_batch
from gantry_wire.messages.properties import parse_properties
from gantry_wire.names import GANTRY_SYSTEM_PREFIX

pytestmark = pytest.mark.anyio
BROKER_OWN = {
    "MSG_REGION": "DefaultRegion",
    "TRACE_ON": "true",
    "CLUSTER": "DefaultCluster",
    "UNIQ_KEY": "U1",
}
FORGED = {
    "__GANTRY_SETTLED": "rmq_sys_wheel_timer:0:7::1/1",
    "__GANTRY_BEGUN": "1",
    "__GANTRY_OUTCOME": "rolledBack",
    "__GANTRY_DELAY_MS": "1",
}
KINDS = {
    "plain": {},
    "waits": {"WAIT": "true"},
    "keyed": {"__GANTRY_KEY": "k1"},
    "level": {"DELAY": "3"},
    "timed": {"TIMER_DELAY_SEC": "60"},
    "half": {"TRAN_MSG": "true", "PGROUP": "pg"},
    "transient": {"__RMQ.TRANSIENT.x": "y"},
}
SINGLE, BATCH = [RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2], RequestCode.SEND_BATCH_MESSAGE
PAIRS = st.lists(
    st.sampled_from(
        [*BROKER_OWN.items(), *FORGED.items(), *(pair for kind in KINDS.values() for pair in kind.items())]
    ),
    max_size=8,
)


def spelled(pairs, *, closed=True):
    text = "".join(f"{name}\x01{value}\x02" for name, value in pairs)
    return text if closed else text.removesuffix("\x02")


def stored_by(side):
    """Return the properties of every record in every queue but the store's own."""
    found = []
    for queue in [queue for queue in side.queues.all() if not queue.topic.startswith(GANTRY_SYSTEM_PREFIX)]:
        found += [record.properties for record in side.records(queue.topic, queue.queue_id)]
    return found


def assert_nothing_is_forged(side):
    for raw in stored_by(side):
        assert read_mark(raw) is None, raw
        found = parse_properties(raw)
        wait = found.pop("__GANTRY_DELAY_MS", None)  # the store's own, of a message of a level
        assert wait in (None, "10000"), raw
        assert raw.count(b"__GANTRY_DELAY_MS") == (wait is not None), raw
        assert STORE_ONLY.isdisjoint(found), raw
        assert raw.endswith(b"\x02")


def send_thrice(side, code, text, sys_flag):
    """The later sends meet what the store remembers of the first: templates, patterns, shapes of halves."""
    peer = ScriptedPeer()
    for number in range(3):
        own = text.replace("U1", f"U{number}").replace("k1", f"k{number}")
        if code == BATCH:
            body = encode_batch([BatchItem(0, b"b", own.encode())] * 2, 1 << 20)
            header = send_header("orders", batch=True)
        else:
            body, header = b"hi", send_header("orders", properties=own, sys_flag=sys_flag)
            if code == RequestCode.SEND_MESSAGE:
                header = SendHeader(**{name: getattr(header, name) for name in SendHeader.__struct_fields__})
        side.ask(peer, code, header, body)
        side.flush()
    return [answer.code for answer in peer.answers]


@pytest.mark.parametrize("code", [*SINGLE, BATCH])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", ["first", "last", "both"])
async def test_a_forged_mark_is_taken_out_of_every_kind_of_send(code, kind, at):
    side = SendingSide()
    forged = list(FORGED.items())
    pairs = [*BROKER_OWN.items(), *KINDS[kind].items()]
    pairs = (forged if at != "last" else []) + pairs + (forged[::-1] if at != "first" else [])
    codes = send_thrice(side, code, spelled(pairs), 4 if kind == "half" else 0)
    is_refused = code == BATCH and kind in {"level", "timed", "half"}
    assert codes == [13 if is_refused else 0] * 3
    assert len(stored_by(side)) == (0 if is_refused else 6 if code == BATCH and kind != "keyed" else 3)
    assert_nothing_is_forged(side)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sends=st.lists(
        st.tuples(st.sampled_from([*SINGLE, BATCH]), PAIRS, st.booleans(), st.sampled_from([0, 4])),
        max_size=4,
    )
)
async def test_no_sequence_of_sends_stores_a_forged_property(sends):
    side = SendingSide()
    for code, pairs, closed, sys_flag in sends:
        send_thrice(side, code, spelled(pairs, closed=closed), sys_flag)
    assert_nothing_is_forged(side)


@given(PAIRS, st.booleans(), st.booleans())
def test_the_stamp_takes_out_what_only_the_store_may_write(pairs, closed, as_bytes):
    stamp = Stamp("R", "C", trace_on=True, next_unique_key=lambda: "MADE")
    text = spelled(pairs, closed=closed)
    properties = parse_properties(text)
    raw, _ = stamp.finish_bytes(text.encode(), properties) if as_bytes else stamp.finish(text, properties)
    assert MARK not in raw
    assert STORE_ONLY.isdisjoint(properties)
    kept = {name: value for name, value in parse_properties(text).items() if name not in STORE_ONLY}
    if not as_bytes:
        kept.pop("__RMQ.TRANSIENT.x", None)
    assert parse_properties(raw).items() >= kept.items()
