"""A record of GANTRY_SYS_COMMITTED as an entry of the group commit. Its body is built when it is placed."""

from collections.abc import Callable

from broker_store.commit.appends import Appends
from broker_store.commit.message import Mode
from broker_store.commit.queues import Queue, QueueTable
from broker_store.commit.record_writer import RecordWriter
from broker_store.commit.topics import COMMITTED_TOPIC
from broker_store.state_records.state_record import Answered, OnVisible, StateRecord


class OffsetRecord(StateRecord):
    """One record. Commits that come before it has its place are still in it.

    It is always flushed: as in every queue of the store's own, no record may become visible before another one in front of it.
    """

    __slots__ = ("_build",)

    def __init__(
        self,
        queue: Queue,
        build: Callable[[], bytes],
        now_ms: int,
        store_host: bytes,
        on_visible: OnVisible,
        on_answer: Answered,
    ) -> None:
        super().__init__(queue, b"", Mode.SYNC, now_ms, store_host, on_visible, on_answer)
        self._build = build

    def place(self, at: RecordWriter) -> None:
        """Build the body, and place the record. Raises LogError."""
        self.body = self._build()
        super().place(at)


class OffsetAppends:
    """Appends records of offsets through the group commit. Works from the ballast when the disk is full."""

    def __init__(self, appends: Appends, queues: QueueTable, now_ms: Callable[[], int]) -> None:
        self._appends, self._queues, self._now_ms = appends, queues, now_ms

    def append(self, build: Callable[[], bytes], on_visible: OnVisible, on_answer: Answered) -> None:
        """See AppendRecord."""
        queue = self._queues.open(COMMITTED_TOPIC, 0)
        record = OffsetRecord(queue, build, self._now_ms(), self._appends.store_host, on_visible, on_answer)
        self._appends.enqueue(record)
