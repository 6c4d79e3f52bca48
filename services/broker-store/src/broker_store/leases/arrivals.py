# ruff: noqa: D102 - the Protocol says what these methods promise
"""Port for waiting receives, which need arrivals as held pulls do, and its default while there are none."""

from collections.abc import Sequence
from typing import Protocol


class Arrivals(Protocol):
    """Collects newly readable messages, then answers the receives they wake."""

    @property
    def held_count(self) -> int:
        """Number of waiting receives."""
        ...

    def arrived(self, topic: str, tags_codes: Sequence[int]) -> None:
        """Record that messages with these tags codes are readable."""
        ...

    def answer_arrivals(self) -> None:
        """Answer the receives that were woken."""
        ...


class NoArrivals:
    """No receive waits."""

    held_count = 0

    def arrived(self, topic: str, tags_codes: Sequence[int]) -> None:
        pass

    def answer_arrivals(self) -> None:
        pass
