"""An illegal name is refused with the rule that it breaks."""

import pytest

from gantry_wire.errors import IllegalName
from gantry_wire.names import check_group, check_topic, dlq_topic, retry_topic


@pytest.mark.parametrize("name", ["T", "a-b_c|d%", "x" * 127, "%RETRY%" + "g" * 248, "%DLQ%" + "g" * 250])
def test_legal_topics_pass(name):
    check_topic(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "is empty"), ("a b", "is illegal"), ("a.b", "is illegal"), ("ä", "is illegal"), ("a\n", "is illegal"),
        ("x" * 128, "128 characters, the limit is 127"), ("%RETRY%" + "g" * 249, "the limit is 255"),
    ],
)  # fmt: skip
def test_illegal_topics_are_refused_with_the_rule(name, message):
    with pytest.raises(IllegalName, match=message) as caught:
        check_topic(name)
    assert caught.value.code == 29


def test_groups_have_their_own_length_limit():
    check_group("g" * 120)
    with pytest.raises(IllegalName, match="the group name has 121 characters, the limit is 120"):
        check_group("g" * 121)


def test_derived_topics_of_the_longest_group_are_legal():
    check_topic(retry_topic("g" * 120))
    check_topic(dlq_topic("g" * 120))
    assert (retry_topic("g"), dlq_topic("g")) == ("%RETRY%g", "%DLQ%g")
