"""Data of an earlier run is checked once, when it is first read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_store.log.commit_log import first_read
from broker_store.log.commit_log.first_read import FirstReadCheck
from broker_store.log.errors import DamagedRecord
from gantry_wire.records.message_record import build_blank


def records(build_at, count, base=0):
    parts = []
    for number in range(count):
        parts.append(build_at("T", 0, number, base + sum(map(len, parts)), b"body %d" % number))
    return parts


def test_a_damaged_record_is_named_and_those_before_it_count_as_checked(build_at):
    parts = records(build_at, 3)
    parts[1] = parts[1][:90] + b"!" + parts[1][91:]
    check = FirstReadCheck(10_000)
    with pytest.raises(DamagedRecord, match="CRC") as raised:
        check.check(0, b"".join(parts))
    assert raised.value.position == len(parts[0])
    assert check.is_trusted(0, len(parts[0]))
    assert not check.is_trusted(0, len(parts[0]) + 1)


def test_the_second_read_is_not_checked_again(build_at):
    data = b"".join(records(build_at, 3))
    check = FirstReadCheck(10_000)
    check.check(0, data)
    check.check(0, b"x" * len(data))  # the page cache is trusted from now on
    with pytest.raises(DamagedRecord):
        check.check(5000, b"x" * 100)


def test_only_the_unchecked_part_of_a_longer_read_is_checked(build_at):
    parts = records(build_at, 4)
    check = FirstReadCheck(10_000)
    check.check(0, parts[0] + parts[1])
    check.check(0, b"?" * len(parts[0] + parts[1]) + parts[2] + parts[3])
    with pytest.raises(DamagedRecord):
        check.check(0, b"".join(parts) + b"?" * 95)


def test_a_record_cut_short_is_refused(build_at):
    (part,) = records(build_at, 1)
    with pytest.raises(DamagedRecord, match="cut short"):
        FirstReadCheck(10_000).check(0, part[:-1])


def test_bytes_after_a_blank_are_ignored_and_are_no_damage(build_at):
    (part,) = records(build_at, 1)
    FirstReadCheck(10_000).check(0, part + build_blank(300) + b"old bytes" * 10)


def test_too_many_stretches_are_forgotten_not_kept(monkeypatch):
    monkeypatch.setattr(first_read, "INTERVALS_MAX", 10)
    check = FirstReadCheck(10_000)
    for number in range(11):
        check.trust(100 * number, 100 * number + 50)
    assert not check.is_trusted(0, 50)


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 40)), max_size=40))
def test_trusted_stretches_agree_with_a_plain_set(stretches):
    check = FirstReadCheck(10_000)
    plain = set()
    for start, size in stretches:
        check.trust(start, start + size)
        plain.update(range(start, start + size))
    for start in range(0, 240, 7):
        for size in (1, 5, 30):
            assert check.is_trusted(start, start + size) == plain.issuperset(range(start, start + size))
    assert check._starts == sorted(check._starts)
    assert all(end < start for end, start in zip(check._ends, check._starts[1:], strict=False))
