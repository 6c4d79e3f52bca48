import pytest

from gantry_chassis.settings.loading import SettingsRefused, load_settings
from nameserver.settings import NameserverSettings, read_conf
from nameserver.switches import Switches


def load(tmp_path, text, *argv):
    path = tmp_path / "namesrv.conf"
    path.write_text(text)
    ignored = []
    settings = load_settings(
        NameserverSettings,
        "NAMESERVER",
        ["-c", str(path), *argv],
        environ={},
        read_file=lambda p: read_conf(p, ignored),
    )
    return settings, ignored


def test_names_of_rocketmq_and_ours_are_read_and_others_are_listed(tmp_path):
    settings, ignored = load(
        tmp_path,
        "# comment\nlistenPort=9999\norderMessageEnable = true\nhttp_port=1\nserverWorkerThreads=8\n",
    )
    assert (settings.port, settings.order_message_enable, settings.http_port) == (9999, True, 1)
    assert ignored == ["serverWorkerThreads"]


def test_tls_properties_of_rocketmq_are_read(tmp_path):
    text = "tls.server.mode=permissive\ntls.server.certPath=/c.pem\ntls.server.keyPath = /k.pem\ntls.x=1\n"
    settings, ignored = load(tmp_path, text)
    assert (settings.tls_mode, settings.tls_cert_file, settings.tls_key_file) == (
        "permissive",
        "/c.pem",
        "/k.pem",
    )
    assert ignored == ["tls.x"]
    with pytest.raises(SettingsRefused, match="self-signed"):
        load(tmp_path, "tls.test.mode.enable=true\n")


def test_the_command_line_wins_over_the_file(tmp_path):
    assert load(tmp_path, "listenPort=9999\n", "--set", "port=1234")[0].port == 1234


@pytest.mark.parametrize("text", ["listenPort=99999\n", "no pair\n", "scanNotActiveBrokerInterval=1\n"])
def test_invalid_settings_are_refused(tmp_path, text):
    with pytest.raises(SettingsRefused):
        load(tmp_path, text)


def test_the_http_port_is_the_next_one_unless_set():
    assert NameserverSettings(port=9876).http_port_or_next == 9877
    assert NameserverSettings(port=0).http_port_or_next == 0
    assert NameserverSettings(http_port=5).http_port_or_next == 5


def test_switches_start_from_the_settings_and_share_their_defaults():
    assert NameserverSettings().switches() == Switches()
    assert NameserverSettings(enable_topic_list=False).switches().enable_topic_list is False
