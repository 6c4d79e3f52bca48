"""The committed offsets of a replica that follows: what its log says. Offsets are committed at the leader only."""

from collections.abc import Iterator, Mapping

from broker_store.groups.committed_offsets import CommittedOffsets
from broker_store.groups.offsets import OffsetTable


class ReplayedOffsets(OffsetTable):
    """Reads the state that the replay of the log fills. Takes no commit; remembers where groups pull, as every table."""

    def __init__(self, committed: CommittedOffsets) -> None:
        super().__init__()
        self._replayed = committed

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Take nothing: a pull may carry an offset, and the leader gets it with the next one or with a commit."""

    def find(self, group: str, topic: str, queue_id: int) -> int | None:
        """See OffsetTable."""
        return self._replayed.find(group, topic, queue_id)

    def of(self, group: str, topic: str) -> Mapping[int, int]:
        """See OffsetTable."""
        return self._replayed.of(group, topic)

    def topics_of(self, group: str) -> list[str]:
        """See OffsetTable."""
        return [topic for topic, other, _ in self._replayed.all() if other == group]

    def groups_of(self, topic: str) -> list[str]:
        """See OffsetTable."""
        return [group for other, group, _ in self._replayed.all() if other == topic]

    def all(self) -> Iterator[tuple[str, str, dict[int, int]]]:
        """See OffsetTable."""
        for topic, group, of_queues in self._replayed.all():
            yield topic, group, dict(of_queues)
