"""Everything a sender may legally write: topic names, and text of keys, tags and properties, including separators and look-alikes."""

from hypothesis import strategies as st

LIKE_NUMBERS = ("1000000000001", "0", "-1", "7FFFFFFF", "00000000000000000000")
"""Values that frames, replies and file names hold beside a topic."""
_letters = st.text(
    st.characters(codec="ascii", categories=("Lu", "Ll", "Nd"), include_characters="%|-_"),
    min_size=1,
    max_size=12,
)
topic_names = st.builds(
    "".join, st.lists(st.one_of(_letters, st.sampled_from(LIKE_NUMBERS)), min_size=1, max_size=3)
)
"""Legal names: only these characters, up to 127 of them."""
texts = st.one_of(
    st.text(
        st.characters(exclude_categories=("Cs",), exclude_characters="\x00\x01\x02"), min_size=1, max_size=12
    ),
    st.sampled_from((*LIKE_NUMBERS, "\U0001f600" * 4, '"', "\\", "a:b", "{}", "é", "\x7f", "\r\n", " ")),
)
"""Values of properties: anything but the separators."""
names_of_keys = st.text(st.characters(codec="ascii", categories=("Lu", "Ll", "Nd")), min_size=1, max_size=40)
"""Unique keys as clients make them."""
bodies = st.one_of(st.binary(max_size=20), st.binary(max_size=300), st.just(b"z" * 70_000))
_int32 = st.integers(-(2**31), 2**31 - 1)


def _mostly(usual, others):
    """Choose the usual values most of the time, so that many sends are alike."""
    return st.one_of(*[st.just(usual)] * 6, others)


@st.composite
def sends(draw, names, text_of):
    """Generate a send into a topic of `names`, with properties from `text_of(draw)`."""
    return draw(st.sampled_from([0, 0, 0, 1])), {
        "topic": draw(st.sampled_from(names)),
        "queue_id": draw(st.sampled_from([0, 0, 0, 1])),
        "text": text_of(draw),
        "body": draw(bodies),
        "flag": draw(_mostly(0, _int32)),
        "sys_flag": draw(_mostly(0, st.sampled_from([1, 4, 0x30, 0x101]))),
        "born_timestamp": draw(_mostly(1_699_999_999_000, st.integers(-1, 2**62))),
        "reconsume_times": draw(_mostly(0, st.integers(0, 2**31 - 1))),
        "kind": draw(st.integers(0, 1)),
        "oneway": draw(st.sampled_from([False] * 7 + [True])),
    }


@st.composite
def scripts(draw, text_of):
    """Generate a script of sends into one or two topics, with turn ends and flushes between.

    Many sends share a queue and take the fast path.
    """
    names = draw(st.lists(topic_names, min_size=1, max_size=2, unique=True))
    step = st.one_of(*[sends(names, text_of)] * 4, st.sampled_from(["end_turn", "flush"]))
    return draw(st.lists(step, min_size=4, max_size=12))
