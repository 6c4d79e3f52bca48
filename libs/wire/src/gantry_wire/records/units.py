"""Layouts of the files derived from the log: ConsumeQueue units, index files, checkpoint. One Struct per layout."""

from struct import Struct

CONSUME_QUEUE_UNIT = Struct(">qiq")
"""Position in the log, size of the record, tags code."""
CONSUME_QUEUE_UNIT_BYTES = CONSUME_QUEUE_UNIT.size
CONSUME_QUEUE_UNITS_PER_FILE = 300_000
CONSUME_QUEUE_FILE_BYTES = CONSUME_QUEUE_UNITS_PER_FILE * CONSUME_QUEUE_UNIT_BYTES
CONSUME_QUEUE_BLANK = CONSUME_QUEUE_UNIT.pack(0, 0x7FFFFFFF, 0)
"""Fills a file before its first real unit if the earlier units were deleted."""
EXTENSION_ADDRESS_MAX = -2_147_483_649
"""Tags codes up to this value are addresses in a ConsumeQueue extension of old RocketMQ versions, not hashes."""

INDEX_HEADER = Struct(">qqqqii")
"""Begin and end time (ms), begin and end position, used slots, next entry number (from 1)."""
INDEX_SLOT = Struct(">i")
"""Number of the newest entry in this slot, or 0."""
INDEX_ENTRY = Struct(">iqii")
"""Key hash, position, seconds since the begin time, number of the previous entry in this slot."""
INDEX_SLOTS = 5_000_000
INDEX_ENTRIES_MAX = 20_000_000
"""Entry numbers are below this value; number 0 is never used."""
INDEX_SLOTS_START = INDEX_HEADER.size
INDEX_ENTRIES_START = INDEX_SLOTS_START + INDEX_SLOTS * INDEX_SLOT.size
INDEX_FILE_BYTES = INDEX_ENTRIES_START + INDEX_ENTRIES_MAX * INDEX_ENTRY.size

CHECKPOINT = Struct(">qqqqq")
"""Store times (ms) of the newest flushed message in log, queues and index; the master's flushed position; the confirm position."""
CHECKPOINT_FILE_BYTES = 4096

assert CONSUME_QUEUE_FILE_BYTES == 6_000_000
assert INDEX_FILE_BYTES == 420_000_040
assert CHECKPOINT.size <= CHECKPOINT_FILE_BYTES
