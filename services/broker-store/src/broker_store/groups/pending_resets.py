"""Resets that a group's clients have not yet seen. Pure.

A client keeps its own place in a queue: until its next pull there has been answered with the new one (code 21), what it commits
is its old place and is ignored.
"""

QueueOfGroup = tuple[str, str, int]
"""(group, topic, queue id)."""


class PendingResets:
    """Offsets that the next pull of a group in a queue is answered with."""

    def __init__(self) -> None:
        self._offsets: dict[QueueOfGroup, int] = {}

    def __bool__(self) -> bool:
        """Whether anything is pending: pulls and commits ask nothing more while it is not."""
        return bool(self._offsets)

    def assign(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Have the next pull answered with `offset`."""
        self._offsets[(group, topic, queue_id)] = offset

    def is_pending(self, group: str, topic: str, queue_id: int) -> bool:
        """Whether commits of this queue are still those of clients that know nothing of the reset."""
        return (group, topic, queue_id) in self._offsets

    def take(self, group: str, topic: str, queue_id: int, asked: int) -> int | None:
        """Return what a pull is answered with, once; None when it asks for that offset already, or nothing is pending."""
        offset = self._offsets.pop((group, topic, queue_id), None)
        return None if offset == asked else offset

    def forget_group(self, group: str) -> None:
        """Forget a group without clients: whoever comes next asks for the committed offset first."""
        self._drop([key for key in self._offsets if key[0] == group])

    def forget_topic(self, topic: str) -> None:
        """Forget a topic that was deleted."""
        self._drop([key for key in self._offsets if key[1] == topic])

    def _drop(self, keys: list[QueueOfGroup]) -> None:
        for key in keys:
            del self._offsets[key]
