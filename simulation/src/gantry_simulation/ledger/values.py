"""Values that clients keep at nameservers: what one acknowledged, it has for ever."""

from __future__ import annotations

from collections.abc import Callable


class Values:
    """Acknowledged values by nameserver and key. Each key is written once."""

    def __init__(self, violate: Callable[[str], None]) -> None:
        self._violate = violate
        self.kept: dict[str, dict[str, str]] = {}
        """By nameserver."""

    def acknowledged(self, nameserver: str, key: str, value: str) -> None:
        """Record that a nameserver has a value."""
        self.kept.setdefault(nameserver, {})[key] = value

    def read(self, nameserver: str, key: str, value: str | None) -> None:
        """Record what a nameserver answered for an acknowledged key."""
        kept = self.kept[nameserver][key]
        if value != kept:
            self._violate(f"{nameserver} has {value} for {key}, it acknowledged {kept}")
