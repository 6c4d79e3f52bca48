import pytest

from broker_store.config.delay_levels import DEFAULT, DEFAULT_LEVELS, LEVELS_MAX, IllegalLevels, parse_levels


def test_the_default_list_is_rocketmqs():
    minute = 60_000
    assert DEFAULT.durations_ms == (
        1000, 5000, 10_000, 30_000, *(n * minute for n in range(1, 11)), 20 * minute, 30 * minute, 60 * minute,
        120 * minute,
    )  # fmt: skip
    assert len(DEFAULT.durations_ms) == 18


def test_a_level_above_the_last_is_the_last():
    assert DEFAULT.number(18) == 18
    assert DEFAULT.number(19) == 18
    assert DEFAULT.number(1_000_000) == 18
    assert DEFAULT.duration_ms(99) == 7_200_000


def test_a_stored_level_gives_the_deliver_time_of_its_unit():
    assert DEFAULT.deliver_ms(b"DELAY\x013\x02", 500) == 10_500
    assert DEFAULT.deliver_ms(b"DELAY\x0199\x02", 0) == 7_200_000
    assert DEFAULT.deliver_ms(b"", 0) == 1000
    assert DEFAULT.deliver_ms(b"DELAY\x013\x02__GANTRY_DELAY_MS\x0177\x02", 500) == 577


def test_days_and_one_level_alone_are_read():
    assert parse_levels("2d").durations_ms == (172_800_000,)
    assert parse_levels("0s 1d").durations_ms == (0, 86_400_000)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "level 1"),
        ("1s 5", "level 2"),
        ("1s  5s", "level 2"),
        ("1s,5s", "level 1"),
        ("1s 5x", "level 2"),
        ("-1s", "level 1"),
        ("1.5s", "level 1"),
        ("1s s", "level 2"),
        ("1S", "level 1"),
        ("99999d", "ten years"),
        (" ".join(["1s"] * (LEVELS_MAX + 1)), str(LEVELS_MAX)),
    ],
)
def test_a_bad_list_is_refused_naming_the_level(text, named):
    with pytest.raises(IllegalLevels, match=named):
        parse_levels(text)


def test_the_setting_s_default_is_the_default_list():
    from broker_store.settings import Settings

    assert Settings().delay_levels == DEFAULT_LEVELS


def test_a_bad_list_refuses_the_start(capsys):
    from broker_store.__main__ import main

    with pytest.raises(SystemExit) as stopped:
        main(["--set", "delay_levels=1s 5q", "-p"])
    assert stopped.value.code != 0
    assert "delay level 2 is '5q'" in capsys.readouterr().err


def test_the_key_of_broker_conf_is_read():
    from broker_store.config.broker_conf import translate

    values = translate({"messageDelayLevel": "1s 2s", "timerMaxDelaySec": "60"}, "broker.conf").values
    assert values == {"delay_levels": "1s 2s", "delay_horizon_seconds": "60"}
