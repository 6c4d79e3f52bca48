"""The reply to a pop: the records of a lease batch as the client needs them, and where they lie. Pure.

A message of the topic itself is sent as it is stored, but for its count of deliveries. One that came back through the retry topic gets its topic and a POP_CK.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from broker_store.leases.receive_handler import Batch
from broker_store.pop.handles import OF_RETRY, OF_TOPIC, PopStamp, extra_info
from gantry_wire.headers.pop import PopReplyHeader
from gantry_wire.limits import INT32_MAX
from gantry_wire.messages.ids import HOST_V4_BYTES, HOST_V6_BYTES
from gantry_wire.messages.properties import POP_CK, format_properties
from gantry_wire.records.message_record import (
    RECORD_HEAD,
    SYS_BORN_HOST_V6,
    SYS_STORE_HOST_V6,
    build_record,
    decode_record,
)

_SIZE = Struct(">i")
_TIMES_BYTES = 8


class Popped(NamedTuple):
    """One message of a reply."""

    flag: str
    queue_id: int
    offset: int
    record: bytes
    attempt: int


def found_reply(
    batch: Batch, topic: str, broker: str, stamp: PopStamp, rest: int
) -> tuple[PopReplyHeader, bytes]:
    """Return header and body of a reply with messages."""
    messages = list(_messages(batch, topic.encode()))
    queues: dict[tuple[str, int], list[int]] = {}
    for one in messages:
        queues.setdefault((one.flag, one.queue_id), []).append(one.offset)
    for offsets in queues.values():
        offsets.sort()  # clients look a message up by the rank of its offset
    body = [_shown(one, topic, broker, stamp, queues[one.flag, one.queue_id][0]) for one in messages]
    starts = ";".join([f"{flag} {queue_id} {offsets[0]}" for (flag, queue_id), offsets in queues.items()])
    named = ";".join(
        [f"{flag} {queue_id} {','.join(map(str, offsets))}" for (flag, queue_id), offsets in queues.items()]
    )
    header = PopReplyHeader(
        pop_time=stamp.pop_time,
        invisible_time=stamp.invisible_ms,
        revive_qid=stamp.revive_qid,
        rest_num=rest,
        start_offset_info=starts,
        msg_offset_info=named,
    )
    return header, b"".join(body)


def _messages(batch: Batch, topic: bytes) -> Iterator[Popped]:
    """Yield the records of a batch, one by one."""
    data, at = b"".join(batch.parts), 0
    for run in batch.runs:
        for _ in range(run.records):
            (size,) = _SIZE.unpack_from(data, at)
            record = data[at : at + size]
            head = RECORD_HEAD.unpack_from(record)
            is_retry = decode_record(record, check_crc=False).topic != topic
            yield Popped(OF_RETRY if is_retry else OF_TOPIC, head[3], head[5], record, run.attempt)
            at += size


def _shown(one: Popped, topic: str, broker: str, stamp: PopStamp, start: int) -> bytes:
    times = min(max(one.attempt - 1, 0), INT32_MAX)
    if one.flag == OF_TOPIC:
        return with_reconsume_times(one.record, times)
    record = decode_record(one.record, check_crc=False)
    named = format_properties({POP_CK: extra_info(start, stamp, one.flag, broker, one.queue_id, one.offset)})
    separator = b"" if not record.properties or record.properties.endswith(b"\x02") else b"\x02"
    return build_record(
        topic.encode(), record.queue_id, record.queue_offset, record.position, record.body,
        record.properties + separator + named, record.flag, record.sys_flag, record.born_timestamp, record.born_host,
        record.store_timestamp, record.store_host, times, record.prepared_position,
    )  # fmt: skip


def with_reconsume_times(record: bytes, times: int) -> bytes:
    """Return a record with another count of redeliveries. No checksum covers it."""
    sys_flag = RECORD_HEAD.unpack_from(record)[7]
    hosts = [
        HOST_V6_BYTES if sys_flag & bit else HOST_V4_BYTES for bit in (SYS_BORN_HOST_V6, SYS_STORE_HOST_V6)
    ]
    at = RECORD_HEAD.size + 2 * _TIMES_BYTES + sum(hosts)
    count = _SIZE.pack(times)
    return record if record[at : at + 4] == count else record[:at] + count + record[at + 4 :]
