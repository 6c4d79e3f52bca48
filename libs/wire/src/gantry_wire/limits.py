"""Maxima that both ends of a connection must agree on, each named with its unit. Constants, not settings.

The asserts at the end check at import that the limits are consistent with each other.
"""

INT16_MAX = 2**15 - 1
INT32_MIN = -(2**31)
INT32_MAX = 2**31 - 1
INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

FRAME_BYTES_MAX = 16 * 1024 * 1024
"""Largest frame, including its 4-byte length (RocketMQ's frameMaxLength counts it too)."""
FRAME_HEAD_BYTES = 8
"""The length, and the serialize type with the header length, before every header."""
HEADER_BYTES_MAX = 2**24 - 1
"""The header length has 24 bits on the wire."""

BODY_BYTES_MAX = 4 * 1024 * 1024
"""Largest body of a message or of a send batch."""
PROPERTIES_BYTES_MAX = INT16_MAX
"""The record stores the length of the properties as a signed short."""
TOPIC_BYTES_MAX = 127
"""Java reads the topic length of a V1 record as a signed byte."""
RETRY_TOPIC_BYTES_MAX = 255
"""Topics that begin with %RETRY% or %DLQ% may be longer and are then stored as V2 records."""
GROUP_BYTES_MAX = 120
RECORD_OVERHEAD_BYTES_MAX = 64 * 1024
"""Maximum size of a record without its body: fixed fields, topic, properties."""
RECORD_BYTES_MAX = BODY_BYTES_MAX + RECORD_OVERHEAD_BYTES_MAX

BATCH_ITEM_BYTES_MIN = 22
"""Five ints and one short: a send batch item without body and properties."""
BATCH_MESSAGES_MAX = 16 * 1024
"""Messages per send batch. The broker places a batch in one turn of its loop, so that the messages are consecutive; other requests wait."""
PER_ITEM_BATCH_BYTES_MAX = FRAME_BYTES_MAX - 64 * 1024
"""Largest body of a send batch that requests a result per item: the frame limit less 64 KiB for the header."""

KEYS_PER_MESSAGE_MAX = 1024
"""Maximum index entries per message. Without it, 32,767 bytes of properties could contain 16,000 keys."""

PULL_MESSAGES_MAX = 1024
JSON_DEPTH_MAX = 64
"""Deepest nesting that the tolerant JSON reader accepts."""
TOPIC_QUEUES_DEFAULT = 8
"""Queues per broker of a topic created without a number: by a first send, over HTTP or on the command line."""
INFLATED_BYTES_MAX = 64 * 1024 * 1024
"""Largest uncompressed register body."""

assert RECORD_BYTES_MAX + FRAME_HEAD_BYTES + INT16_MAX * 2 < FRAME_BYTES_MAX
assert GROUP_BYTES_MAX + len("%RETRY%") <= RETRY_TOPIC_BYTES_MAX
assert RETRY_TOPIC_BYTES_MAX + PROPERTIES_BYTES_MAX + 256 < RECORD_OVERHEAD_BYTES_MAX
assert FRAME_BYTES_MAX > HEADER_BYTES_MAX
