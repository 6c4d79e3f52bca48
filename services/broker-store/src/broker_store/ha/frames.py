"""The bytes of RocketMQ's HA protocol. No names, no versions, no checksums, and numbers are big-endian.

```
slave → master   position (8)                               the slave has everything below
master → slave   position (8), size (4), bytes (size)       bytes of the log from this position on; size 0: the master lives
```
"""

from struct import Struct

REPORT = Struct(">q")
HEAD = Struct(">qi")
IDLE_BYTES = HEAD.size


def head(position: int, size: int) -> bytes:
    """Return what precedes `size` bytes of the log at this position."""
    return HEAD.pack(position, size)


class ReportStream:
    """Cuts what a slave sends into its reports."""

    def __init__(self) -> None:
        self._half = b""

    def receive(self, data: bytes) -> list[int]:
        """Return the positions of the reports that are complete now, in their order."""
        data = self._half + data
        whole = len(data) - len(data) % REPORT.size
        self._half = data[whole:]
        return [position for (position,) in REPORT.iter_unpack(data[:whole])]
