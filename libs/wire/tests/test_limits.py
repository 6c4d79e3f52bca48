"""The limits are consistent with each other and with the layouts."""

from gantry_wire import limits
from gantry_wire.messages.batch import BatchItem, encode_batch
from gantry_wire.records.message_record import record_size


def test_the_largest_parts_fit_the_largest_record():
    largest = record_size(
        limits.BODY_BYTES_MAX, limits.RETRY_TOPIC_BYTES_MAX, limits.PROPERTIES_BYTES_MAX, 20, 20
    )
    assert largest <= limits.RECORD_BYTES_MAX


def test_the_minimum_size_of_a_batch_item_matches_the_layout():
    assert len(encode_batch([BatchItem(0, b"", b"")])) == limits.BATCH_ITEM_BYTES_MIN


def test_every_legal_group_has_a_legal_retry_topic():
    assert len("%RETRY%") + limits.GROUP_BYTES_MAX <= limits.TOPIC_BYTES_MAX
