"""The stream of a register: one name per group, and no other configuration."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_store.replication.register.stream import configuration, differences, name_of, quoted, subject_of

LEGAL = re.compile(r"[A-Za-z0-9_=-]+")


@given(st.text(min_size=1, max_size=127), st.text(min_size=1, max_size=127))
def test_two_groups_never_share_a_stream(one: str, other: str) -> None:
    assert LEGAL.fullmatch(quoted(one))
    assert (quoted(one) == quoted(other)) == (one == other)
    assert (subject_of(one) == subject_of(other)) == (one == other)


def test_a_usual_name_stays_readable() -> None:
    assert (name_of("broker-a"), subject_of("a.b")) == ("GANTRY_REGISTER_broker-a", "gantry.register.a=2Eb")


def test_a_name_that_jetstream_could_not_keep_is_refused() -> None:
    assert len(name_of("b" * 127)) < 255
    with pytest.raises(ValueError, match="too long for a register"):
        name_of("ü" * 127)


def test_the_wanted_configuration_is_a_register() -> None:
    assert differences("a", 3, configuration("a", 3)) == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"storage": "memory"}, "storage is 'memory' and must be 'file'"),
        ({"num_replicas": 1}, "num_replicas is 1 and must be 3"),
        ({"deny_delete": False}, "deny_delete is False and must be True"),
        ({"deny_purge": False}, "deny_purge is False and must be True"),
        ({"allow_direct": True}, "allow_direct is True and must be False"),
        ({"max_msgs": 1}, "max_msgs is 1 and must be 64"),
        ({"max_age": 10}, "max_age is 10 and must be 0"),
        ({"subjects": ["gantry.register.a", "x"]}, "subjects"),
        ({"mirror": {"name": "x"}}, "mirror must not be set"),
        ({"sources": [{"name": "x"}]}, "sources must not be set"),
        ({"sealed": True}, "sealed must not be set"),
        ({"allow_rollup_hdrs": True}, "allow_rollup_hdrs must not be set"),
        ({"persist_mode": "async"}, "persist_mode must not be set"),
    ],
)
def test_another_configuration_is_none(changed: dict[str, object], words: str) -> None:
    (found,) = differences("a", 3, {**configuration("a", 3), **changed})
    assert words in found
