"""CPU seconds and memory of a process and its descendants, including those without a waiting parent (Spark's Java and its Python workers)."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")
_SAMPLE_SECONDS = 0.1


@dataclass
class Used:
    """The resource usage of a process."""

    name: str
    cpu: float
    peak_mb: int


def sample(root: int) -> dict[int, Used]:
    """Return the usage of `root` and all its descendants, by process id."""
    parents: dict[int, int] = {}
    cpu: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            cpu[int(entry.name)] = (int(fields[11]) + int(fields[12])) / _TICKS

    def is_below(pid: int) -> bool:
        while pid not in (0, root):
            pid = parents.get(pid, 0)
        return pid != 0

    found: dict[int, Used] = {}
    for pid in filter(is_below, parents):
        try:
            status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        except OSError:
            continue
        found[pid] = Used(
            status["Name"].strip(), cpu[pid], int(status.get("VmHWM", "0 kB").split()[0]) // 1024
        )
    return found


class Watch:
    """Samples a process and its descendants during a block: the last CPU seconds of each process, and its largest memory."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._seen: dict[int, Used] = {}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._work)

    @property
    def cpu(self) -> float:
        """Return the total CPU seconds."""
        return sum(used.cpu for used in self._seen.values())

    @property
    def root_mb(self) -> int:
        """Return the memory of the process itself."""
        return self._seen[self._root].peak_mb if self._root in self._seen else 0

    def peak_mb(self, name: str) -> int:
        """Return the memory of the largest descendant whose name begins like this."""
        return max(
            (
                used.peak_mb
                for pid, used in self._seen.items()
                if used.name.startswith(name) and pid != self._root
            ),
            default=0,
        )

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._ends.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._ends.wait(_SAMPLE_SECONDS):
            for pid, used in sample(self._root).items():
                if pid in self._seen:  # an ended process without a waiting parent no longer reports memory
                    used.peak_mb = max(used.peak_mb, self._seen[pid].peak_mb)
                self._seen[pid] = used
