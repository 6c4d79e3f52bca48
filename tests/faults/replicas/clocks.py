"""The wall clocks of replicas, which a test moves while they run. `moved_clocks/` is what their processes find before their own modules."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

MODULES = Path(__file__).parent / "moved_clocks"
VARIABLE = "NEMESIS_CLOCKS"
"""Names the folder of the clocks to the processes."""
_AHEAD = struct.Struct("=q")


class Clocks:
    """One clock for each replica, right until it is moved."""

    def __init__(self, folder: Path, names: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._maps: dict[str, mmap.mmap] = {}
        for name in names:
            path = folder / name
            path.write_bytes(_AHEAD.pack(0))
            with path.open("r+b") as file:
                self._maps[name] = mmap.mmap(file.fileno(), _AHEAD.size)

    def move(self, name: str, seconds: float) -> None:
        """Put a clock ahead of the right time by this much; negative: behind."""
        _AHEAD.pack_into(self._maps[name], 0, round(seconds * 1e9))

    def heal(self) -> None:
        """Put all clocks right."""
        for name in self._maps:
            self.move(name, 0)
