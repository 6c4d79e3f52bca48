"""Parsers of user input: every wrong value is refused with a message that says what to write."""

from datetime import UTC, datetime

import pytest

from gantrymq.cli import values

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3", 3), ("1.5s", 1.5), ("500ms", 0.5), ("10m", 600), ("1h30m", 5400), ("2d", 172_800), ("0s", 0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert values.seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "1x", "-3s", "1h 30m", "10 minutes", "1m3"])
def test_a_wrong_duration_says_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match=r"write 500ms, 1\.5s, 10m, 1h30m or 2d"):
        values.seconds_of(text)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("now", "2026-01-31T12:00:00.000Z"),
        ("-10m", "2026-01-31T11:50:00.000Z"),
        ("+1h30m", "2026-01-31T13:30:00.000Z"),
        ("2026-01-31T13:00:00+01:00", "2026-01-31T12:00:00.000Z"),
        ("2026-01-31T12:00:00.5Z", "2026-01-31T12:00:00.500Z"),
        ("1769860800000", "2026-01-31T12:00:00.000Z"),
    ],
)
def test_instants(text: str, instant: str) -> None:
    assert values.instant_of(text, NOW) == instant


@pytest.mark.parametrize("text", ["", "tomorrow", "12", "2026-13-01", "-soon"])
def test_wrong_instants(text: str) -> None:
    with pytest.raises(ValueError, match="write"):
        values.instant_of(text, NOW)


@pytest.mark.parametrize("target", ["earliest", "latest", 17, 0])
def test_reset_targets(target: str | int) -> None:
    assert values.reset_target(str(target)) == target


def test_a_long_number_is_a_time() -> None:
    assert values.reset_target("1769860800000") == "2026-01-31T12:00:00.000Z"


def test_a_wrong_reset_target_names_all_kinds() -> None:
    with pytest.raises(ValueError, match="'begin': write earliest, latest, an offset or a time"):
        values.reset_target("begin")


def test_queues() -> None:
    assert values.queue_of("broker-a:3") == ("broker-a", 3)
    for wrong in ("3", "broker-a", ":3", "broker-a:x", "broker-a:-1"):
        with pytest.raises(ValueError, match="write BROKER:ID, as broker-a:3"):
            values.queue_of(wrong)


def test_pairs() -> None:
    assert values.pairs_of(["a=b=c", "b=1"], "property") == {"a": "b=c", "b": "1"}
    for wrong in ("a", "=b", "a="):
        with pytest.raises(ValueError, match="is not a setting: write NAME=VALUE"):
            values.pairs_of([wrong], "setting")
    with pytest.raises(ValueError, match="property a is given twice"):
        values.pairs_of(["a=b", "a=c"], "property")


@pytest.mark.parametrize("text", ["9" * 20, "+99999999999d", "-99999999999d", "0001-01-01T00:00:00+14:00"])
def test_instants_out_of_range_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="out of range"):
        values.instant_of(text)


def test_names() -> None:
    assert values.topic_name("%RETRY%g-1_x") == "%RETRY%g-1_x"
    for wrong in ("", "a b", "ä", "a" * 128):
        with pytest.raises(ValueError, match="is not a valid name of a topic: 1 to 127 letters"):
            values.topic_name(wrong)
    with pytest.raises(ValueError, match="group: 1 to 120"):
        values.group_name("g" * 121)


def test_retry_policies() -> None:
    assert values.retry_policy("levels") is None
    assert values.retry_policy("1s, 5s,1m") == {"type": "list", "delaysMs": [1000, 5000, 60_000]}
    assert values.retry_policy("1s*2<1m") == {
        "type": "exponential", "initialMs": 1000, "multiplier": 2.0, "maxMs": 60_000,
    }  # fmt: skip
    with pytest.raises(ValueError, match="a policy is levels, 1s,5s,1m or 1s"):
        values.retry_policy("often")
