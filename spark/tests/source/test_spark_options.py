"""Options of the source and the sink, filters, and offsets of streams: what is accepted, and the message for what is not."""

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringContains,
)

from gantry_spark.bad_option import BadOption
from gantry_spark.decode.schema import COLUMNS, DEFAULT_COLUMNS
from gantry_spark.source import options, stream_offsets
from gantry_spark.source.options import EARLIEST, LATEST, Offsets
from gantry_spark.source.pushdown import Restriction
from gantry_spark.source.stream_offsets import Reached


def parse(**given):
    return options.parse({"path": "data", **given})


def test_defaults_read_everything_in_columns_that_cost_little():
    found = parse()
    assert (found.paths, found.columns, found.topics, found.starting) == (
        ("data",),
        DEFAULT_COLUMNS,
        None,
        None,
    )
    assert (found.fail_on_data_loss, found.pushdown, found.min_partitions) == (True, False, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", Offsets(EARLIEST)),
        ("Latest", Offsets(LATEST)),
        ('{"broker-a": 4096, "broker-b": -1}', Offsets(EARLIEST, {"broker-a": 4096, "broker-b": -1})),
        (
            '{"orders": {"broker-a": {"0": 23, "1": -2}}}',
            Offsets(EARLIEST, {}, {"orders": {"broker-a": {0: 23, 1: -2}}}),
        ),
    ],
)
def test_offsets_have_the_forms_of_other_connectors(text, expected):
    assert parse(startingOffsets=text).starting == expected


def test_offsets_of_queues_name_the_topics():
    assert parse(startingOffsets='{"orders": {"broker-a": {"0": 1}}}').topics == frozenset({"orders"})
    with pytest.raises(BadOption, match="which the option topic leaves out"):
        parse(topic="other", startingOffsets='{"orders": {"broker-a": {"0": 1}}}')


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"startingOffset": "earliest"}, "no option startingoffset; it has path, snapshot"),
        ({"startingOffsets": "soon"}, "startingOffsets is earliest, latest,"),
        ({"startingOffsets": "{}"}, "startingOffsets is earliest, latest,"),
        ({"startingOffsets": '{"a": -3}'}, "startingOffsets is earliest, latest,"),
        ({"startingOffsets": "latest", "startingTimestamp": "1"}, "not both"),
        ({"endingTimestamp": "yesterday"}, "endingTimestamp is milliseconds since 1970 or like"),
        ({"minPartitions": "0"}, "minPartitions is a number of at least 1, not 0"),
        ({"snapshotSeconds": "100000"}, "from 1 to 86400"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss is true or false"),
        ({"columns": "topic,colour"}, "has no column 'colour'"),
        ({"columns": "topic,Topic"}, "named twice"),
        ({"topic": "a", "subscribe": "b"}, "mean the same"),
        ({"http": "127.0.0.1:10913"}, "http is like broker-a=http://"),
    ],
)
def test_an_invalid_option_is_named_with_the_expected_form(given, words):
    with pytest.raises(BadOption, match=words):
        parse(**given)


def test_times_are_milliseconds_or_iso_in_utc():
    assert parse(startingTimestamp="1000").starting_ms == 1000
    assert parse(startingTimestamp="1970-01-01T00:00:02").starting_ms == 2000
    assert parse(endingTimestamp="1970-01-01T01:00:02+01:00").ending_ms == 2000


def test_columns_bytes_and_addresses_are_lists_and_sizes():
    assert parse(columns="*").columns == tuple(COLUMNS)
    assert parse(columns="topic, property:region").columns == ("topic", "property:region")
    assert parse(maxBytesPerTrigger="64m").max_bytes_per_trigger == 64 << 20
    assert parse(http="broker-a=http://h:1, b=https://i").http == {"broker-a": "http://h:1", "b": "https://i"}


def at(milliseconds, micros=0):
    return datetime.fromtimestamp(milliseconds / 1000, UTC).replace(
        microsecond=milliseconds % 1000 * 1000 + micros
    )


def test_exactly_applied_filters_are_not_returned():
    restriction = Restriction(topics=frozenset({"a", "b", "c"}))
    filters = [
        IsNotNull(("topic",)), In(("Topic",), ("a", "b", "z")), EqualTo(("queueId",), 3),
        GreaterThan(("storeTimestamp",), at(1000, 500)), LessThanOrEqual(("storeTimestamp",), at(2000)),
        EqualTo(("brokerName",), "broker-a"),
    ]  # fmt: skip
    assert restriction.take(filters) == []
    assert (restriction.topics, restriction.queues, restriction.brokers) == ({"a", "b"}, {3}, {"broker-a"})
    assert restriction.spans == {"storetimestamp": (1001, 2001)}


def test_narrowing_and_unknown_filters_are_returned():
    restriction = Restriction()
    filters = [
        GreaterThanOrEqual(("physicalOffset",), 100), LessThan(("queueOffset",), 7), IsNotNull(("keys",)),
        StringContains(("topic",), "x"), EqualTo(("tags",), "a"),
    ]  # fmt: skip
    given_back = restriction.take(filters)
    assert [id(one) for one in given_back] == [id(one) for one in filters]
    assert restriction.spans == {"physicaloffset": (100, None), "queueoffset": (None, 7)}


def test_a_filter_between_two_milliseconds_finds_nothing():
    restriction = Restriction()
    assert restriction.take([EqualTo(("storeTimestamp",), at(1000, 500))]) == []
    low, below = restriction.spans["storetimestamp"]
    assert low >= below


def test_offsets_of_a_stream_survive_json_and_equal_ones_are_equal_text():
    reached = {"b": Reached("id", 4096, {"orders": {1: 5, 0: 7}}), "a": Reached("", 0, stored_from=12)}
    plain = stream_offsets.to_json(reached)
    assert stream_offsets.from_json(plain) == reached
    assert list(plain) == ["a", "b"]
    assert reached["b"].bounds == {"orders": {1: (5, None), 0: (7, None)}}
    with pytest.raises(ValueError, match="no offsets of this source"):
        stream_offsets.from_json({"a": 5})


def test_the_bytes_of_a_batch_are_divided_by_the_unread_bytes():
    assert stream_offsets.share({"a": 10, "b": 20}, 100) == {"a": 10, "b": 20}
    assert stream_offsets.share({"a": 1000, "b": 3000, "c": 0, "d": 1}, 400) == {
        "a": 99,
        "b": 299,
        "c": 0,
        "d": 1,
    }
