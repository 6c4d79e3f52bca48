"""Resources: RocketMQ's four text forms, both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry_access.errors import MalformedResource
from gantry_access.model.resources import EVERYTHING, Resource


@pytest.mark.parametrize(
    ("text", "key", "is_prefix"),
    [
        ("*", "", True),
        ("Topic:*", "Topic:", True),
        ("Topic:or*", "Topic:or", True),
        ("Topic:orders", "Topic:orders", False),
        ("Group:g", "Group:g", False),
        ("Cluster:DefaultCluster", "Cluster:DefaultCluster", False),
        ("Namespace:*", "Namespace:", True),
        ("Topic:ns%orders", "Topic:ns%orders", False),
        ("Topic:a:b", "Topic:a:b", False),
    ],
)
def test_each_form_is_read_and_written(text, key, is_prefix):
    assert Resource.parse(text) == Resource(key, is_prefix)
    assert Resource.parse(text).text == text


def test_the_type_is_read_in_any_case():
    assert Resource.parse("tOPIC:Orders").text == "Topic:Orders"


@pytest.mark.parametrize(
    "text",
    ["", "Topic", "orders", "Topic:", "Any:zzz", "Unknown:a", "*:a", " Topic:a", "Top*", "Group:%RETRY%"],
)
def test_other_texts_are_refused(text):
    with pytest.raises(MalformedResource):
        Resource.parse(text)


@pytest.mark.parametrize("text", ["Topic:a*b", "Topic:a*b*", "Topic:**", "Topic:a\nb"])
def test_a_star_inside_a_name_is_refused_where_rocketmq_cuts_the_name(text):
    with pytest.raises(MalformedResource, match="before its end, or a control character"):
        Resource.parse(text)


def test_a_long_name_is_refused_with_the_limit():
    assert Resource.topic("x" * 255).text == "Topic:" + "x" * 255
    with pytest.raises(MalformedResource, match="256 characters, the limit is 255"):
        Resource.topic("x" * 256)


@pytest.mark.parametrize("name", ["%RETRY%g", "%DLQ%g", "%RETRY%%DLQ%g", "g"])
def test_retry_and_dead_letter_names_of_a_group_are_the_group(name):
    assert Resource.group(name) == Resource.parse(f"Group:{name}") == Resource("Group:g", False)


@pytest.mark.parametrize("text", ["Group:%RETRY%*", "Group:%DLQ%*", "Group:%RETRY%"])
def test_a_retry_name_without_a_group_is_not_all_groups(text):
    with pytest.raises(MalformedResource, match="names no group"):
        Resource.parse(text)


@pytest.mark.parametrize(
    ("one", "other", "covers"),
    [
        ("*", "Topic:a", True),
        ("*", "*", True),
        ("Topic:*", "Topic:a*", True),
        ("Topic:a*", "Topic:*", False),
        ("Topic:a*", "Topic:ab", True),
        ("Topic:a", "Topic:ab", False),
        ("Topic:a", "Topic:a", True),
        ("Topic:a", "Topic:a*", False),
        ("Topic:*", "Group:a", False),
    ],
)
def test_what_a_resource_covers(one, other, covers):
    assert Resource.parse(one).covers(Resource.parse(other)) is covers


@pytest.mark.parametrize("name", ["%RETRY%g", "%DLQ%g"])
def test_a_topic_keeps_its_prefix(name):
    assert Resource.topic(name).text == f"Topic:{name}"


def test_one_cluster_and_everything():
    assert Resource.cluster("c").text == "Cluster:c"
    assert EVERYTHING.text == "*"


@given(st.text(max_size=12) | st.from_regex(r"(Topic|group|CLUSTER):[%a-z*]{0,6}", fullmatch=True))
def test_any_text_is_refused_or_read_as_a_resource_that_reads_as_itself(text):
    try:
        found = Resource.parse(text)
    except MalformedResource:
        return
    assert Resource.parse(found.text) == found
