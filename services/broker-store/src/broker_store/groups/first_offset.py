"""Where RocketMQ's new consumers begin in a queue. Pure but for the bytes that are in memory."""

from broker_store.log.errors import LogError
from broker_store.ports import LogReader, QueueReader
from gantry_wire.records.units import CONSUME_QUEUE_UNIT


def is_whole_in_memory(queue: QueueReader, log: LogReader) -> bool:
    """Whether a queue still has its first message, and that message is in memory: a new group reads it from there."""
    if queue.max_offset == 0:
        return True
    if queue.min_offset > 0:
        return False
    units = queue.read(0, 1)
    if not units:
        return False
    position, size, _ = CONSUME_QUEUE_UNIT.unpack(units)
    try:
        return log.read_nowait(position, size) is not None
    except LogError:
        return False


def newest_start(queue: QueueReader, log: LogReader) -> int:
    """Return where a group begins that starts at the newest message, as POP of RocketMQ does (initMode 1): with the last message, or with all."""
    return 0 if is_whole_in_memory(queue, log) else max(queue.max_offset - 1, queue.min_offset)
