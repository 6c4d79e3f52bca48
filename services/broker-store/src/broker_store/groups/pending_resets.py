"""Offset resets that a group's clients have not seen yet. Pure.

A client keeps its own position in a queue. Until its next pull there is answered with the new one (code
21), its commits are of the old position and are ignored.
"""

QueueOfGroup = tuple[str, str, int]
"""(group, topic, queue id)."""


class PendingResets:
    """Offsets that answer a group's next pull of a queue."""

    def __init__(self) -> None:
        self._offsets: dict[QueueOfGroup, int] = {}

    def __bool__(self) -> bool:
        """Whether anything is pending. If not, pulls and commits skip further checks."""
        return bool(self._offsets)

    def assign(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Answer the next pull with `offset`."""
        self._offsets[(group, topic, queue_id)] = offset

    def is_pending(self, group: str, topic: str, queue_id: int) -> bool:
        """Whether commits of this queue still come from clients that do not know of the reset."""
        return (group, topic, queue_id) in self._offsets

    def take(self, group: str, topic: str, queue_id: int, asked: int) -> int | None:
        """Return the answer for a pull, once. None when it requests that offset already, or nothing is pending."""
        offset = self._offsets.pop((group, topic, queue_id), None)
        return None if offset == asked else offset

    def forget_group(self, group: str) -> None:
        """Forget a group without clients: its next client queries the committed offset first."""
        self._drop([key for key in self._offsets if key[0] == group])

    def forget_topic(self, topic: str) -> None:
        """Forget a deleted topic."""
        self._drop([key for key in self._offsets if key[1] == topic])

    def _drop(self, keys: list[QueueOfGroup]) -> None:
        for key in keys:
            del self._offsets[key]
