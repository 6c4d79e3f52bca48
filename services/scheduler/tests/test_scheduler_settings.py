"""Defaults work together, and values out of bounds stop the start."""

import pytest

from gantry_chassis.settings.loading import SettingsRefused, load_settings
from scheduler.settings import SchedulerSettings


def load(*arguments):
    return load_settings(
        SchedulerSettings, "SCHEDULER", [part for word in arguments for part in ("--set", word)], environ={}
    )


def test_the_http_port_follows_the_remoting_port():
    assert load().http_port_or_next == 10923
    assert load("port=0").http_port_or_next == 0
    assert load("http_port=7").http_port_or_next == 7


@pytest.mark.parametrize(
    "word",
    ["port=70000", "settle_batch=0", "settle_batch=4097", "claim_ttl_ms=100", "park_after_hours=0", "nope=1"],
)
def test_values_out_of_bounds_are_refused(word):
    with pytest.raises(SettingsRefused):
        load(word)
