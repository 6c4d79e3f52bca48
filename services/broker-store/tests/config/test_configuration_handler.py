"""Requests 25 and 26: settings changed at run time and kept across a restart."""

from pathlib import Path

import pytest
from reading_side import ReadingSide

from broker_store.commit.appends import disk_full
from broker_store.config.broker_config import NUMBERS, BrokerConfig
from broker_store.config.config_files import DataVersionCounter
from broker_store.config.configuration_handler import ConfigurationHandlers
from broker_store.config_log.settings_table import SettingsChanges, SettingsFile, apply_file, setting_key
from broker_store.log.files.real_files import RealFiles
from broker_store.process.disk_care import read_hours
from gantry_wire.bodies.config_text import parse_config_text
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[4]


@pytest.fixture
async def side(tmp_path):
    side = open_side(tmp_path)
    yield side
    await close_side(side)


def open_side(directory):
    """A reading side whose settings are kept in `directory`."""
    side = ReadingSide(directory)
    changes = SettingsChanges(side.config, lambda *keys: side.changed.extend(keys), side.records.when_saved)
    side.changed = []
    side.commands.update(ConfigurationHandlers(changes).commands())
    apply_file(side.config, SettingsFile(RealFiles(), str(directory / "config")))
    return side


async def close_side(side):
    await side.consuming.stop()


async def test_settings_are_listed_and_changed_at_run_time(side):
    assert (
        await side.ask(25, body=b"longPollingEnable=false\nbrokerPermission=4\n")
    ).code == ResponseCode.SUCCESS
    assert (side.settings.long_polling_enable, side.settings.broker_permission) == (False, 4)
    reply = await side.ask(26)
    assert parse_config_text(reply.body)["longPollingEnable"] == "false"
    assert b'"counter":2' in reply.ext["version"].encode()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"rocketmqHome=/x\n", ResponseCode.NO_PERMISSION),
        (b"listenPort=1\n", ResponseCode.NO_PERMISSION),
        (b"brokerPermission=9\n", ResponseCode.INVALID_PARAMETER),
        (b"longPollingEnable=perhaps\n", ResponseCode.INVALID_PARAMETER),
        (b"no line\n", ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_a_setting_that_cannot_change_is_refused_with_the_whole_request(side, text, code):
    reply = await side.ask(25, body=b"shortPollingTimeMills=5\n" + text)
    assert reply.code == code
    if code == ResponseCode.NO_PERMISSION:
        assert side.settings.short_polling_ms == 1000


async def test_every_setting_of_the_reading_side_takes_effect(side):
    changes = {
        "shortPollingTimeMills": "5",
        "disableConsumeIfConsumerReadSlowly": "true",
        "consumerFallbehindThreshold": "1048576",
        "maxTransferBytesOnMessageInMemory": "2048",
        "autoCreateSubscriptionGroup": "false",
    }
    side.config.update(changes)
    settings = side.settings
    assert (settings.short_polling_ms, settings.protect_broker, settings.fallbehind_bytes_max) == (
        5,
        True,
        1 << 20,
    )
    assert settings.limits.memory.size == 2048
    assert side.consuming.groups.find_or_create("new") is None


async def test_a_value_that_is_refused_leaves_the_values_before_it_as_they_were(side):
    await side.ask(25, body=b"longPollingEnable=true\n")
    reply = await side.ask(25, body=b"longPollingEnable=false\nbrokerPermission=9\n")
    assert (reply.code, side.settings.long_polling_enable) == (ResponseCode.INVALID_PARAMETER, True)
    assert parse_config_text((await side.ask(26)).body)["longPollingEnable"] == "true"


async def test_an_unknown_key_differs_from_one_that_only_a_start_can_set(side):
    reply = await side.ask(25, body=b"nonsense=1\n")
    assert (reply.code, reply.remark) == (
        ResponseCode.NO_PERMISSION,
        "nonsense is not a setting of this broker",
    )
    reply = await side.ask(25, body=b"brokerName=b\n")
    assert reply.remark.startswith("brokerName cannot be changed while the broker runs")


async def test_every_change_is_recorded_before_it_is_answered(side):
    await side.ask(25, body=b"longPollingEnable=false\nbrokerPermission=4\n")
    assert (side.changed, side.records.asked) == (
        [setting_key("longPollingEnable"), setting_key("brokerPermission")],
        1,
    )


async def test_a_kept_change_that_cannot_be_applied_leaves_the_rest_active(tmp_path):
    file = tmp_path / "config" / "broker.properties"
    file.parent.mkdir()
    file.write_bytes(b"# by hand\nold=1\nbrokerPermission=99\nlongPollingEnable=false\n")
    side = open_side(tmp_path)
    assert (side.settings.long_polling_enable, side.settings.broker_permission) == (False, 6)
    await close_side(side)
    file.write_bytes(b"torn")
    side = open_side(tmp_path)
    assert side.settings.long_polling_enable is True
    await close_side(side)


async def test_a_change_that_cannot_be_saved_applies_and_is_reported(side):
    side.records.refusal = disk_full()
    reply = await side.ask(25, body=b"longPollingEnable=false\n")
    assert (reply.code, side.settings.long_polling_enable) == (ResponseCode.SYSTEM_ERROR, False)
    assert "holds until the broker stops" in reply.remark


@pytest.mark.parametrize("name", sorted(NUMBERS))
async def test_a_number_is_taken_within_its_bounds_only_and_the_refusal_names_them(side, name):
    config, taken = BrokerConfig({}, DataVersionCounter(side.now_ms)), []
    config.bind_number(name, taken.append)
    low, high = NUMBERS[name]
    config.update({name: str(low)})
    config.update({name: f" {high} "})
    assert taken == [low, high]
    for value in (low - 1, high + 1, "9" * 5000, "1.5", "1_000", "\u0663\u0663\u0663", "+99", "", "x" * 9000):
        with pytest.raises(RefusedRequest, match=f"write a whole number from {low} to {high}") as refused:
            config.update({name: str(value)})
        assert len(refused.value.remark) < 200
    assert taken == [low, high]


@pytest.mark.parametrize(
    ("name", "destroys_or_stops"),
    [
        ("fileReservedTime", range(-1, 24)),
        ("diskMaxUsedSpaceRatio", (-1, 0, 9, 96, 100)),
        ("maxMessageSize", (-1, 0, 1)),
        ("sendThreadPoolQueueCapacity", (-1, 0, 1)),
        ("waitTimeMillsInSendQueue", (-1, 0, 1)),
    ],
)
async def test_no_request_sets_what_destroys_messages_or_stops_sends(name, destroys_or_stops):
    for value in destroys_or_stops:
        assert not NUMBERS[name].low <= value <= NUMBERS[name].high


async def test_a_number_without_bounds_cannot_be_bound(side):
    with pytest.raises(KeyError, match="madeUp has no bounds"):
        side.config.bind_number("madeUp", print)


async def test_a_start_value_outside_the_bounds_returns_when_a_change_of_the_same_request_is_refused(
    side,
):
    config, sizes = BrokerConfig({"maxMessageSize": "4"}, DataVersionCounter(side.now_ms)), []
    config.bind_number("maxMessageSize", sizes.append)
    config.bind("deleteWhen", read_hours)
    with pytest.raises(RefusedRequest, match="hours from 0 to 23"):
        config.update({"maxMessageSize": "2048", "deleteWhen": "99"})
    assert sizes == [2048, 4]


async def test_the_operations_manual_lists_the_bounds_of_every_number():
    manual = (ROOT / "docs" / "operations.md").read_text()
    for name, (low, high) in NUMBERS.items():
        assert f"| `{name}` | {low:,} | {high:,} |" in manual
