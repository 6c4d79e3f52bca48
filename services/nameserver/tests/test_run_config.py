import msgspec
import pytest

from gantry_wire.bodies.config_text import parse_config_text
from gantry_wire.errors import RefusedRequest
from nameserver.run_config import RunConfig
from nameserver.settings import NameserverSettings
from nameserver.switches import Switches


def make(**settings):
    made = NameserverSettings(**settings)
    return RunConfig(made, made.switches())


def test_settings_are_shown_by_the_names_of_rocketmq():
    shown = parse_config_text(make(port=1).text())
    assert shown["listenPort"] == "1"
    assert shown["orderMessageEnable"] == "false"
    assert shown["kvConfigPath"] == "data/nameserver/kvConfig.json"


def test_a_change_takes_effect_and_only_changes_are_saved():
    config = make()
    config.update(b"orderMessageEnable=true\n")
    assert config.content() == b"orderMessageEnable=true\n"
    config.update(b"enableTopicList=false\nunknownName=1\n")
    kept = config.content()
    assert config.switches.order_message_enable
    assert not config.switches.enable_topic_list
    fresh = make(wait_seconds_for_service=3)
    assert fresh.restore(kept) == ["enable_topic_list", "order_message_enable"]
    assert fresh.switches.order_message_enable
    assert fresh.switches.wait_seconds_for_service == 3


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("kvConfigPath=/x", 16, "black list"),
        ("rocketmqHome=/x\norderMessageEnable=true", 16, "black list"),
        ("mine=1", 16, "black list"),
        ("no pair", 1, "string2Properties error"),
        ("\xff=\xfe", 1, "string2Properties error"),
        ("listenPort=1\norderMessageEnable=true", 1, "only the start can set this"),
        ("orderMessageEnable=maybe", 1, "orderMessageEnable=maybe"),
        ("orderMessageEnable=true\nenableTopicList=2", 1, "enableTopicList=2: write true or false"),
    ],
)
def test_a_refused_change_changes_nothing(text, code, message):
    config = make(config_black_list="mine; other")
    with pytest.raises(RefusedRequest) as refused:
        config.update(text.encode("latin-1"))
    assert refused.value.code == code
    assert message in refused.value.remark
    assert not config.switches.order_message_enable


def test_credentials_are_not_shown():
    assert b"secret" not in make(nats_url="nats://user:secret@host:4222").text()


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("waitSecondsForService", 0, 600), ("scanNotActiveBrokerInterval", 50, 60_000)],
)
def test_every_number_is_bounded_and_the_refusal_names_the_bounds(name, low, high):
    config = make()
    for value in (low, high):
        config.update(f"{name}={value}\n".encode())
        assert config.values()[name] == str(value)
    for value in (low - 1, high + 1, 10**30, -(10**30), "1.5", "x" * 9000, ""):
        with pytest.raises(RefusedRequest, match=f"write a whole number from {low} to {high}") as refused:
            config.update(f"{name}={value}\n".encode())
        assert len(refused.value.remark) < 200
        assert config.values()[name] == str(high)


def test_the_bounds_test_covers_every_number_that_can_change():
    numbers = [
        field.encode_name
        for field in msgspec.structs.fields(Switches)
        if isinstance(msgspec.inspect.type_info(field.type), msgspec.inspect.IntType)
    ]
    assert numbers == ["waitSecondsForService", "scanNotActiveBrokerInterval"]
