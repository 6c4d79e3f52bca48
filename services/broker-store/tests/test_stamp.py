from hypothesis import given
from hypothesis import strategies as st

from broker_store.stamp import ADDED, Stamp
from gantry_wire.properties import parse_properties

STAMP = Stamp("R", "C", trace_on=False, next_unique_key=lambda: "MADE")
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=8)
PAIRS = st.dictionaries(st.one_of(TEXT, st.sampled_from([*ADDED, "UNIQ_KEY"])), TEXT, max_size=6)


@given(PAIRS, st.booleans())
def test_the_clients_bytes_stay_a_prefix_and_every_property_is_there_once(pairs, is_closed):
    text = "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())
    sent = text if is_closed else text.removesuffix("\x02")
    raw, unique_key = STAMP.finish(sent, parse_properties(sent))
    assert raw.startswith(sent.encode())
    assert parse_properties(raw) == {
        "UNIQ_KEY": "MADE", "MSG_REGION": "R", "TRACE_ON": "false", "CLUSTER": "C", **pairs,
    }  # fmt: skip
    assert raw.endswith(b"\x02")
    assert unique_key == pairs.get("UNIQ_KEY", "MADE")
    assert raw.count(b"\x01") == len(parse_properties(raw))
