import pytest

from gantry_wire.bodies.cluster import BrokerData, QueueData, TopicRouteData
from gantrymq import ConfigurationError, MessageQueue, Producer
from gantrymq.connection.routes import publish_queues, same_route, subscribe_queues, template_route
from gantrymq.formats.namespaces import unwrap, wrap
from gantrymq.settings import ClientSettings, client_settings


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nameservers": ""}, "nameservers: none is given"),
        ({"nameservers": "localhost"}, "write host:port"),
        ({"nameservers": 7}, "nameservers: must be text or a list"),
        ({"namespace": "a b"}, "namespace: only letters"),
        ({"access_key": "me"}, "give both or neither"),
        ({"request_timeout": 0}, "request_timeout: 0 is outside 0.01"),
        ({"send_timeout": "3"}, "send_timeout: must be a number"),
        ({"retries": -1}, "retries: -1 is outside 0 to 64"),
        ({"linger": 5}, "linger: 5 is outside 0 to 1"),
        ({"batch_bytes_max": 5_000_000}, "batch_bytes_max"),
        ({"retrys": 3}, "unknown option retrys"),
    ],
)
def test_a_wrong_option_is_named_with_its_limit(options, words, monkeypatch):
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(ConfigurationError, match=words):
        Producer("g", **{"nameservers": "127.0.0.1:9876", **options})


@pytest.mark.parametrize("group", ["", "a b", "x" * 121, "DEFAULT_PRODUCER", None])
def test_a_group_needs_a_valid_name(group):
    with pytest.raises(ConfigurationError, match="group: "):
        Producer(group, nameservers="127.0.0.1:9876")


def test_nameservers_may_be_a_list_or_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("NAMESRV_ADDR", "10.0.0.9:9876")
    assert client_settings({}).nameservers == "10.0.0.9:9876"
    assert client_settings({"nameservers": ["a:1", "b:2"]}).nameservers == "a:1;b:2"
    assert client_settings({"nameservers": "http://list:80/x"}).nameservers == "http://list:80/x"


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("T", "ns%T"),
        ("ns%T", "ns%T"),
        ("%RETRY%g", "%RETRY%ns%g"),
        ("%DLQ%ns%g", "%DLQ%ns%g"),
        ("RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRACE_TOPIC"),
        ("CID_RMQ_SYS_X", "CID_RMQ_SYS_X"),
    ],
)
def test_namespaces_are_added_and_removed(name, wrapped):
    assert wrap("ns", name) == wrapped
    assert wrap("", name) == name
    assert unwrap("ns", wrapped) == name.replace("ns%", "")


def route(order=None):
    return TopicRouteData(
        broker_datas=[
            BrokerData(broker_name="b", broker_addrs={0: "10.0.0.2:1"}),
            BrokerData(broker_name="a", broker_addrs={0: "10.0.0.1:1", 1: "10.0.0.1:2"}),
            BrokerData(broker_name="slave-only", broker_addrs={1: "10.0.0.3:1"}),
        ],
        queue_datas=[
            QueueData(broker_name="b", perm=6, read_queue_nums=3, write_queue_nums=2),
            QueueData(broker_name="a", perm=4, read_queue_nums=1, write_queue_nums=1),
            QueueData(broker_name="slave-only", perm=6, read_queue_nums=1, write_queue_nums=1),
        ],
        order_topic_conf=order,
    )


def test_messages_go_to_writable_masters_and_come_from_all_readable_brokers():
    assert publish_queues("T", route()) == [MessageQueue("T", "b", 0), MessageQueue("T", "b", 1)]
    assert subscribe_queues("T", route()) == [
        MessageQueue("T", "a", 0), *(MessageQueue("T", "b", n) for n in range(3)), MessageQueue("T", "slave-only", 0),
    ]  # fmt: skip


def test_an_order_configuration_overrides_the_route():
    queues = [MessageQueue("T", "x", 0), MessageQueue("T", "x", 1), MessageQueue("T", "y", 0)]
    assert publish_queues("T", route("x:2;y:1")) == subscribe_queues("T", route("x:2;y:1")) == queues


def test_the_template_gives_no_more_queues_than_requested():
    assert [data.write_queue_nums for data in template_route(route(), 2).queue_datas] == [2, 1, 1]


def test_the_order_of_a_route_is_irrelevant():
    other = route()
    other.broker_datas.reverse()
    other.queue_datas.reverse()
    assert same_route(route(), other)
    other.queue_datas[0].perm = 2
    assert not same_route(route(), other)
    assert not same_route(None, route())


def test_settings_are_shown_without_secrets():
    shown = repr(
        ClientSettings(nameservers="127.0.0.1:1", access_key="me", secret_key="hidden", security_token="too")
    )
    assert "me" in shown
    assert "hidden" not in shown
    assert "too" not in shown


def test_keys_come_from_the_environment_unless_they_are_options(monkeypatch):
    monkeypatch.setenv("GANTRY_ACCESS_KEY", "me")
    with pytest.raises(
        ConfigurationError, match="GANTRY_ACCESS_KEY and GANTRY_SECRET_KEY: set both or neither"
    ):
        client_settings({"nameservers": "a:1"})
    monkeypatch.setenv("GANTRY_SECRET_KEY", "hidden")
    found = client_settings({"nameservers": "a:1"})
    assert (found.access_key, found.secret_key) == ("me", "hidden")
    given = client_settings({"nameservers": "a:1", "access_key": "you", "secret_key": "other"})
    assert (given.access_key, given.secret_key) == ("you", "other")
