"""The files derived from the log have RocketMQ's layouts."""

from gantry_wire.records import units


def test_sizes_of_the_derived_files():
    assert units.CONSUME_QUEUE_UNIT_BYTES == 20
    assert units.CONSUME_QUEUE_FILE_BYTES == 6_000_000
    assert (units.INDEX_HEADER.size, units.INDEX_SLOT.size, units.INDEX_ENTRY.size) == (40, 4, 20)
    assert (units.INDEX_SLOTS_START, units.INDEX_ENTRIES_START) == (40, 20_000_040)
    assert units.INDEX_FILE_BYTES == 420_000_040
    assert units.CHECKPOINT.size == 40


def test_a_blank_unit_has_the_blank_size():
    assert units.CONSUME_QUEUE_UNIT.unpack(units.CONSUME_QUEUE_BLANK) == (0, 2**31 - 1, 0)


def test_negative_tags_codes_are_kept():
    unit = units.CONSUME_QUEUE_UNIT.pack(2**40, 200, -1234)
    assert unit.hex() == "0000010000000000000000c8fffffffffffffb2e"
