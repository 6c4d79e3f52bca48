"""Tag expressions select by tags code; the client resolves hash collisions."""

import pytest

from gantry_wire.errors import MalformedExpression
from gantry_wire.messages.properties import tags_code
from gantry_wire.subscription import EVERYTHING, TagFilter


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_no_expression_matches_everything(expression):
    wanted = TagFilter.parse(expression)
    assert wanted is EVERYTHING
    assert wanted.codes is None
    assert wanted.matches(0)
    assert wanted.matches(123)


def test_tags_are_split_trimmed_and_hashed():
    wanted = TagFilter.parse(" TagA || TagB||  ||TagA")
    assert wanted.names == {"TagA", "TagB"}
    assert wanted.codes == {tags_code("TagA"), tags_code("TagB")}
    assert wanted.matches(2598919)
    assert not wanted.matches(0)
    assert not wanted.matches(tags_code("TagC"))


def test_only_the_low_32_bits_of_a_code_are_compared():
    negative = "polygenelubricants"
    wanted = TagFilter.parse(negative)
    assert wanted.matches(-(2**31))
    assert wanted.matches(2**31)
    assert TagFilter.parse("TagA").matches(2598919 + 2**32)


def test_an_extension_address_always_matches():
    assert TagFilter.parse("TagA").matches(-2_147_483_649)
    assert TagFilter.parse("TagA").matches(-(2**63) + 5)
    assert not TagFilter.parse("TagA").matches(-2_147_483_648)


@pytest.mark.parametrize("expression", ["||", " ", " || "])
def test_an_expression_without_a_tag_is_refused(expression):
    with pytest.raises(MalformedExpression) as caught:
        TagFilter.parse(expression)
    assert caught.value.code == 23
