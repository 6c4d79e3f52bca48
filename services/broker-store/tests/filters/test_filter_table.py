"""The table of SQL92 filters: newer versions win, groups that left are dead and removed after 24 hours."""

import pytest

from broker_store.filters.table import CLEAN_AFTER_MS, FilterTable
from gantry_wire.bodies import fastjson
from gantry_wire.bodies.clients import SubscriptionData


def sql(expression, version=1, topic="orders", kind="SQL92"):
    return SubscriptionData(topic=topic, sub_string=expression, sub_version=version, expression_type=kind)


@pytest.fixture
def table():
    table = FilterTable()
    table.register("g", [sql("a > 1")], 1000)
    return table


def expression(table, topic="orders", group="g"):
    found = table.find(topic, group)
    return None if found is None else found.expression


def test_a_heartbeat_is_kept_compiled(table):
    data = table.find("orders", "g")
    assert data.compiled.matches(b"a\x012\x02")
    assert (data.born_time, data.client_version, data.is_dead) == (1000, 1, False)


@pytest.mark.parametrize(("version", "expected"), [(0, "a > 1"), (1, "a > 1"), (2, "b > 1")])
def test_only_a_newer_version_replaces(table, version, expected):
    table.register("g", [sql("b > 1", version)], 2000)
    assert expression(table) == expected


def test_the_same_expression_keeps_its_birth_and_takes_the_version(table):
    table.register("g", [sql("a > 1", 7)], 2000)
    data = table.find("orders", "g")
    assert (data.born_time, data.client_version) == (1000, 7)


def test_a_newer_expression_that_does_not_compile_removes_the_filter(table):
    table.register("g", [sql("b >", 2)], 2000)
    assert expression(table) is None


@pytest.mark.parametrize("subscription", [sql("*", 1, kind="TAG"), sql("", 1), sql("a = 1", 1, kind="XPATH")])
def test_an_expression_that_is_not_sql_is_not_kept(subscription):
    table = FilterTable()
    table.register("g", [subscription], 1000)
    assert list(table.all()) == []


def test_a_topic_no_longer_subscribed_is_dead_until_it_comes_back(table):
    table.register("g", [sql("c = 1", topic="other")], 2000)
    assert table.find("orders", "g").dead_time == 2000
    table.register("g", [sql("a > 1"), sql("c = 1", topic="other")], 3000)
    assert not table.find("orders", "g").is_dead


def test_a_filter_that_is_dead_for_24_hours_is_removed(table):
    table.leave("g", 5000)
    assert table.clean(5000 + CLEAN_AFTER_MS - 1) == 0
    assert table.clean(5000 + CLEAN_AFTER_MS) == 1
    assert list(table.all()) == []
    table.leave("g", 6000)


def test_a_deleted_topic_takes_its_filters_along(table):
    table.forget_topic("orders")
    assert expression(table) is None
    table.register("g", [sql("a > 1", 1)], 2000)
    assert expression(table) == "a > 1"


def test_the_file_has_rocketmqs_format_and_is_read_back_unchanged(table):
    content = fastjson.loads(table.encode())
    assert content == {
        "filterDataByTopic": {
            "orders": {
                "groupFilterData": {
                    "g": {
                        "bornTime": 1000,
                        "clientVersion": 1,
                        "consumerGroup": "g",
                        "deadTime": 0,
                        "expression": "a > 1",
                        "expressionType": "SQL92",
                        "topic": "orders",
                    }
                },
                "topic": "orders",
            }
        }
    }
    again = FilterTable()
    assert again.load(content, 500_000)
    data = again.find("orders", "g")
    assert data.expression == "a > 1"
    assert data.dead_time == 470_000


def test_a_file_of_rocketmq_with_bloom_filters_is_read():
    content = fastjson.loads(
        b'{"filterDataByTopic":{"T":{"groupFilterData":{"g":{"bloomFilterData":{"bitNum":112,"bitPos":[1,2]},'
        b'"bornTime":5,"clientVersion":9,"consumerGroup":"g","dead":false,"deadTime":0,"expression":"a = 1",'
        b'"expressionType":"SQL92","topic":"T"},"h":{"bornTime":5,"clientVersion":9,"consumerGroup":"h","deadTime":7,'
        b'"expression":"a =","expressionType":"SQL92","topic":"T"}},"topic":"T"}}}'
    )
    table = FilterTable()
    assert table.load(content, 10)
    assert expression(table, "T") == "a = 1"
    assert expression(table, "T", "h") is None


@pytest.mark.parametrize(
    "content", [[], 5, {"filterDataByTopic": 5}, {"filterDataByTopic": {"T": {"groupFilterData": 1}}}]
)
def test_a_file_of_another_format_is_ignored(content):
    table = FilterTable()
    assert not table.load(content, 10)
    assert list(table.all()) == []
