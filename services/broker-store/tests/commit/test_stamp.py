from hypothesis import given
from hypothesis import strategies as st

from broker_store.commit.stamp import ADDED, Stamp, plain_unique_key
from gantry_wire.messages.properties import parse_properties

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


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["UNIQ_KEY", "WAIT", "TAGS", "__RMQ.TRANSIENT.x", ""]),
            st.sampled_from(["true", "false", "K1", "\0" * 300, ""]),
        ),
        max_size=4,
    ),
    st.booleans(),
)
def test_plain_properties_are_known_without_parsing(pairs, closed):
    text = "".join(f"{name}\x01{value}\x02" for name, value in pairs)
    text = text if closed else text.removesuffix("\x02")
    key = plain_unique_key(text.encode())
    if key:
        assert parse_properties(text) == {"WAIT": "true", "UNIQ_KEY": key}
        stamp = Stamp("r", "c", trace_on=True, next_unique_key=lambda: "MADE")
        assert stamp.finish(text, parse_properties(text)) == (text.encode() + stamp.suffix, key)


def test_only_the_properties_of_every_java_client_are_plain():
    assert plain_unique_key(b"UNIQ_KEY\x017F0000010B2C\x02WAIT\x01true\x02") == "7F0000010B2C"
    assert plain_unique_key(b"UNIQ_KEY\x017F\x02WAIT\x01false\x02") == ""
    assert plain_unique_key(b"UNIQ_KEY\x01\x02WAIT\x01true\x02") == ""
    assert plain_unique_key(b"UNIQ_KEY\x01a\x02b\x02WAIT\x01true\x02") == ""
