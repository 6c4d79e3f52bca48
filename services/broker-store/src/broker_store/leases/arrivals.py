# ruff: noqa: D102 - the Protocol says what these methods promise
"""Who beside held pulls is told of arrivals: receives that wait. A port, and what stands in while nobody does."""

from collections.abc import Sequence
from typing import Protocol


class Arrivals(Protocol):
    """Told of messages that became readable, then asked to answer who they woke."""

    @property
    def held_count(self) -> int:
        """How many wait."""
        ...

    def arrived(self, topic: str, tags_codes: Sequence[int]) -> None:
        """Messages with these tags codes became readable."""
        ...

    def answer_arrivals(self) -> None:
        """Answer who was woken."""
        ...


class NoArrivals:
    """Nobody waits."""

    held_count = 0

    def arrived(self, topic: str, tags_codes: Sequence[int]) -> None:
        pass

    def answer_arrivals(self) -> None:
        pass
