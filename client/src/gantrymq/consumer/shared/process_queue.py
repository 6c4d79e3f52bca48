"""The pulled, unfinished messages of a queue: their number and size, and which offset may be committed.

Pure. Messages arrive in the order of their offsets and finish in any; the commit offset is that of the first unfinished one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from gantrymq.message import MessageQueue, ReceivedMessage

LOCK_LIVES_SECONDS = 30.0
"""How long a member trusts its own lock; the broker keeps it for 60 s."""


class ProcessQueue:
    """A queue assigned to this member. Once `dropped` it is never reused; a new one takes its place."""

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
        """The start of the next pull: all messages below have arrived, or were filtered out."""
        self.max_offset: int = next_offset - 1
        """The offset of the last message that arrived."""
        self.bytes: int = 0
        self.taken: int = 0
        """How many messages from the front a serial consumer has taken."""
        self.on_room: Callable[[], None] | None = None
        """Called when messages are removed while a pull waits for room."""
        self.dropped: bool = False
        """No call of the listener starts any more."""
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
        """The offset of the first unfinished message, 0 if there is none."""
        return self._waiting[0].record.queue_offset if self._waiting else 0

    @property
    def span(self) -> int:
        """How far the first unfinished message is behind the last one that arrived."""
        return self.max_offset - self._waiting[0].record.queue_offset if self._waiting else 0

    @property
    def commit_offset(self) -> int:
        """The offset below which everything is finished, or was filtered out."""
        return self._waiting[0].record.queue_offset if self._waiting else self.next_offset

    def put(self, messages: Sequence[ReceivedMessage], next_offset: int) -> None:
        """Add the messages of a pull, perhaps none, and the start of the next one."""
        self.next_offset = next_offset
        if messages:
            assert messages[0].record.queue_offset > self.max_offset, (
                "a pull returned messages that are already here"
            )
            self._waiting.extend(messages)
            self.bytes += sum([message.record.size for message in messages])
            self.max_offset = messages[-1].record.queue_offset

    def remove(self, messages: Sequence[ReceivedMessage]) -> int:
        """Remove finished messages; return the offset that may now be committed."""
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
            # otherwise it was finished before, when its time was over
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
        assert not self.taken, "the taken messages are not given back"
        waiting = self._waiting
        taken = [waiting[n] for n in range(min(count_max, len(waiting)))]
        self.taken = len(taken)
        return taken

    def commit(self) -> int:
        """Finish the taken messages; return the offset that may now be committed."""
        for _ in range(self.taken):
            self.bytes -= self._waiting.popleft().record.size
        self.taken = 0
        return self.commit_offset

    def give_back(self) -> None:
        """Put the taken messages back to the front."""
        self.taken = 0
