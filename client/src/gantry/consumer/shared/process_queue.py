"""The messages of one queue that were pulled and are not yet done: how many, how large, and which offset may be committed.

Pure. Messages come in the order of their offsets and may be done in any; committed is what lies below the first undone one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from gantry.message import MessageQueue, ReceivedMessage

LOCK_LIVES_SECONDS = 30.0
"""For how long a member treats its own lock as valid; the broker keeps it for 60 s."""


class ProcessQueue:
    """One queue in the hands of this member. Once `dropped` it never comes back; a new one takes its place."""

    __slots__ = (
        "_done",
        "_waiting",
        "bytes",
        "dropped",
        "is_locked",
        "last_consumed",
        "last_locked",
        "last_pulled",
        "max_offset",
        "next_offset",
        "on_room",
        "queue",
        "released",
        "taken",
    )

    def __init__(self, queue: MessageQueue, next_offset: int, now: float) -> None:
        self.queue: MessageQueue = queue
        self.next_offset: int = next_offset
        """Where the next pull begins: whatever lies below has come, or is not wanted."""
        self.max_offset: int = next_offset - 1
        """Of the last message that came."""
        self.bytes: int = 0
        self.taken: int = 0
        """How many from the front a serial consumer has in hand."""
        self.on_room: Callable[[], None] | None = None
        """Called by who removes messages, while a pull waits for room."""
        self.dropped: bool = False
        """No call of the listener begins any more."""
        self.released: bool = False
        """Its offset was written for the last time: another member may have the queue."""
        self.is_locked: bool = False
        self.last_locked: float = now
        self.last_pulled: float = now
        self.last_consumed: float = now
        self._waiting: deque[ReceivedMessage] = deque()
        self._done: set[int] = set()

    def __len__(self) -> int:
        return len(self._waiting) - len(self._done)

    @property
    def min_offset(self) -> int:
        """Offset of the first message that is not done, 0 when there is none."""
        return self._waiting[0].record.queue_offset if self._waiting else 0

    @property
    def span(self) -> int:
        """How far the first message that is not done lies behind the last one that came."""
        return self.max_offset - self._waiting[0].record.queue_offset if self._waiting else 0

    @property
    def commit_offset(self) -> int:
        """The offset below which everything is done, or was not wanted."""
        return self._waiting[0].record.queue_offset if self._waiting else self.next_offset

    def put(self, messages: Sequence[ReceivedMessage], next_offset: int) -> None:
        """Take the messages of a pull, perhaps none, and where the next one begins."""
        self.next_offset = next_offset
        if messages:
            assert messages[0].record.queue_offset > self.max_offset, "a pull answered what was there already"
            self._waiting.extend(messages)
            self.bytes += sum([message.record.size for message in messages])
            self.max_offset = messages[-1].record.queue_offset

    def remove(self, messages: Sequence[ReceivedMessage]) -> int:
        """Note messages as done; return the offset that may now be committed."""
        waiting, done = self._waiting, self._done
        for message in messages:
            if waiting and waiting[0] is message:
                self.bytes -= waiting.popleft().record.size
                if done:
                    self._take_done()
                continue
            offset = message.record.queue_offset
            if waiting and offset > waiting[0].record.queue_offset and offset not in done:
                self.bytes -= message.record.size
                done.add(offset)
            # else it was done before, by the end of its time
        return self.commit_offset

    def _take_done(self) -> None:
        waiting, done = self._waiting, self._done
        while done and waiting[0].record.queue_offset in done:
            done.discard(waiting.popleft().record.queue_offset)

    def has_valid_lock(self, now: float) -> bool:
        """Whether an orderly consumer may work."""
        return self.is_locked and now - self.last_locked < LOCK_LIVES_SECONDS

    # A serial consumer takes from the front, in order

    def take(self, count_max: int) -> list[ReceivedMessage]:
        """Return the first messages; they stay until `commit`, or are given back."""
        assert not self.taken, "the messages in hand are not given back"
        waiting = self._waiting
        taken = [waiting[n] for n in range(min(count_max, len(waiting)))]
        self.taken = len(taken)
        return taken

    def commit(self) -> int:
        """Note what was taken as done; return the offset that may now be committed."""
        for _ in range(self.taken):
            self.bytes -= self._waiting.popleft().record.size
        self.taken = 0
        return self.commit_offset

    def give_back(self) -> None:
        """Leave what was taken at the front, to be taken again."""
        self.taken = 0
