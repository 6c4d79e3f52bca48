"""How far each source is read in this term. The index and the readers share it, and it is made before both."""

from collections.abc import Mapping

from gantry_link.system_queues.following import FollowMetrics


class ReadOffsets:
    """The offset up to which each source was read."""

    def __init__(self, firsts: Mapping[int, int]) -> None:
        """`firsts`: the offset where reading begins, by source."""
        self.firsts = firsts
        self._reading: dict[int, FollowMetrics] = {}

    def follow(self, source: int, metrics: FollowMetrics) -> None:
        """From now on a follower reads this source."""
        self._reading[source] = metrics

    def until(self, source: int) -> int:
        """Return the offset up to which a source was read."""
        reading = self._reading.get(source)
        return self.firsts.get(source, 0) if reading is None else reading.next_offset
