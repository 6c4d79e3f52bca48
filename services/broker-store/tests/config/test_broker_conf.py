import pytest

from broker_store.config.broker_conf import (
    REFUSED,
    RENAMED,
    describe_values,
    parse_properties_file,
    read_broker_conf,
    refuse_alone,
    refuse_open,
    translate,
)
from broker_store.settings import IMPORTANT, Settings
from gantry_chassis.machine.addresses import reachable_address
from gantry_chassis.settings.loading import SettingsRefused


def test_a_broker_conf_as_it_ships_with_rocketmq_is_understood():
    text = """
# comment
brokerClusterName = DefaultCluster
brokerName = broker-a
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = ASYNC_FLUSH
"""
    conf = translate(parse_properties_file(text), "broker.conf")
    assert conf.values == {
        "cluster_name": "DefaultCluster",
        "broker_name": "broker-a",
        "delete_when": "04",
        "reserved_hours": "48",
        "flush": "async",
    }
    assert conf.ignored == []


def test_keys_without_a_meaning_are_named():
    keys = {"useEpollNativeSelector": "true", "haSendHeartbeatInterval": "5000", "x": "1"}
    assert translate(keys, "f").ignored == list(keys)


@pytest.mark.parametrize(
    "keys",
    [
        {"brokerId": "1"},
        {"brokerRole": "SLAVE"},
        {"enableConsumeQueueExt": "true"},
        {"enableCalcFilterBitMap": "true"},
        {"filterServerNums": "1"},
        {"initAuthenticationUser": '{"username":"root","password":"x"}'},
        {"migrateAuthFromV1Enabled": "true"},
        {"authenticationProvider": "com.example.Mine"},
        {"enableDLegerCommitLog": "true"},
        {"transientStorePoolEnable": "true"},
        {"storeType": "defaultRocksDB"},
        {"flushDiskType": "SOMETIMES"},
        {"storePathCommitLog": "/elsewhere"},
        {"storePathRootDir": "/a", "storePathCommitLog": "/b/commitlog"},
        {"listenPort": "10911", "haListenPort": "10911"},
        {"brokerName": ""},
        {"mappedFileSizeConsumeQueue": "many"},
    ],
)
def test_contradictions_are_refused_naming_the_key(keys):
    with pytest.raises(SettingsRefused) as refused:
        translate(keys, "broker.conf")
    assert any(key in str(refused.value) for key in keys)


@pytest.mark.parametrize("key", sorted(REFUSED))
def test_a_refused_key_with_a_harmless_value_is_no_reason_to_stop(key):
    harmless = {
        "brokerId": "0",
        "brokerRole": "ASYNC_MASTER",
        "storeType": "default",
        "filterServerNums": "0",
        "initAuthenticationUser": "",
        "authenticationProvider": "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
        "authorizationProvider": "",
    }
    translate({key: harmless.get(key, "false")}, "f")


@pytest.mark.parametrize("key", ["aclEnable", "authenticationEnabled", "authorizationEnabled"])
def test_a_file_that_asks_for_access_control_starts_only_with_it(key):
    conf = translate({key: "true"}, "f")
    assert (conf.guarded_by, conf.ignored) == ([key], [])
    with pytest.raises(SettingsRefused, match=f"{key}=true asks for access control, which access_key_file"):
        refuse_open(conf.guarded_by, Settings())
    refuse_open(conf.guarded_by, Settings(access_key_file="keys"))
    refuse_open(translate({key: "false"}, "f").guarded_by, Settings())


def test_a_role_says_what_a_leader_waits_for_and_a_promise_of_copies_needs_other_stores():
    assert translate({"brokerRole": "ASYNC_MASTER"}, "f").replication == "async"
    role = translate({"brokerRole": "SYNC_MASTER"}, "f").replication
    assert role == "sync"
    with pytest.raises(SettingsRefused, match="brokerRole=SYNC_MASTER promises that another store"):
        refuse_alone(role, Settings())
    refuse_alone(role, Settings(replica="a", replicas="a=h:1;b=h:2"))
    refuse_alone("async", Settings())
    shown = [
        describe_values(Settings(replica=replica, replication=kind), 1, 2)["brokerRole"]
        for replica, kind in (("", "sync"), ("a", "sync"), ("a", "async"))
    ]
    assert shown == ["ASYNC_MASTER", "SYNC_MASTER", "ASYNC_MASTER"]


def test_the_log_path_may_be_said_twice_alike():
    keys = {
        "storePathRootDir": "/a",
        "storePathCommitLog": "/a/commitlog",
        "mappedFileSizeConsumeQueue": "6000000",
    }
    assert translate(keys, "f").values == {"store_dir": "/a", "queue_file_units": "300000"}


def test_comments_colons_and_blanks_are_read_as_java_does():
    assert parse_properties_file("! c\n a : b \nc=d=e\n\nflag") == {"a": "b", "c": "d=e", "flag": ""}


def test_a_toml_file_holds_gantrys_names(tmp_path):
    path = tmp_path / "store.toml"
    path.write_text('broker_name = "b"\nport = 1\n')
    assert read_broker_conf(path).values == {"broker_name": "b", "port": "1"}


def test_a_missing_file_is_refused_with_a_reason(tmp_path):
    with pytest.raises(SettingsRefused, match="cannot read the settings file"):
        read_broker_conf(tmp_path / "none.conf")


def test_every_key_maps_to_a_setting():
    names = set(Settings.__struct_fields__)
    assert set(RENAMED.values()) <= names
    assert set(IMPORTANT) <= names


def test_settings_are_listed_under_rocketmqs_names():
    values = describe_values(Settings(), 10911, 10909)
    assert values["flushDiskType"] == "SYNC_FLUSH"
    assert values["autoCreateTopicEnable"] == "true"
    assert (values["listenPort"], values["fastListenPort"]) == ("10911", "10909")
    assert values["haListenPort"] == "10912"
    assert describe_values(Settings(ha_port=4711), 10911, 10909)["haListenPort"] == "4711"


def test_tls_properties_of_rocketmq_are_understood_and_insecure_ones_refused():
    keys = {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": "/c.pem",
        "tls.server.keyPath": "/k.pem",
        "tls.enable": "TRUE",
        "tls.config.file": "/etc/rocketmq/tls.properties",
    }
    conf = translate(keys, "broker.conf")
    assert conf.values == {
        "tls_mode": "enforcing",
        "tls_cert_file": "/c.pem",
        "tls_key_file": "/k.pem",
        "tls_client": "true",
    }
    assert conf.ignored == ["tls.config.file"]
    with pytest.raises(SettingsRefused, match=r"tls\.test\.mode\.enable=true: a self-signed certificate"):
        translate({"tls.test.mode.enable": "true"}, "broker.conf")


def test_tools_see_whether_a_store_connects_by_tls():
    assert describe_values(Settings(), 10911, 10909)["useTLS"] == "false"
    assert describe_values(Settings(tls_client=True), 10911, 10909)["useTLS"] == "true"


def test_ports_follow_the_remoting_port():
    settings = Settings(port=20000)
    assert (settings.fast_port_used, settings.http_port_used) == (19998, 20002)
    assert Settings(port=0).http_port_used == 0
    assert Settings(listen="0.0.0.0", advertise="store-1").advertised_host(reachable_address) == "store-1"
