"""Limits agree with each other and with the layouts they bound."""

from gantry_wire import limits
from gantry_wire.batch import BatchItem, encode_batch
from gantry_wire.record import record_size


def test_the_largest_record_holds_the_largest_parts():
    largest = record_size(
        limits.BODY_BYTES_MAX, limits.RETRY_TOPIC_BYTES_MAX, limits.PROPERTIES_BYTES_MAX, 20, 20
    )
    assert largest <= limits.RECORD_BYTES_MAX


def test_the_smallest_batch_item_is_counted_right():
    assert len(encode_batch([BatchItem(0, b"", b"")])) == limits.BATCH_ITEM_BYTES_MIN


def test_a_retry_topic_exists_for_every_legal_group():
    assert len("%RETRY%") + limits.GROUP_BYTES_MAX <= limits.TOPIC_BYTES_MAX
