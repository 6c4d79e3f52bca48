"""The result of a run, for people and for programs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from gantry_spark.source.plan import Lost


@dataclass(frozen=True)
class Result:
    """The result of a run."""

    rows: int = 0
    files: int = 0
    bytes: int = 0
    dead_rows: int = 0
    damaged: int = 0
    lost: tuple[Lost, ...] = ()
    """Ranges of logs that were deleted before they were exported."""
    marks: dict[str, list[Any]] | None = None
    seconds: float = 0.0

    def to_json(self) -> str:
        """Return it as one line."""
        fields = asdict(self)
        fields["deadRows"] = fields.pop("dead_rows")
        fields["lostBytes"] = sum(one.stop - one.start for one in self.lost)
        fields["lost"] = [{"broker": one.broker, "from": one.start, "to": one.stop} for one in self.lost]
        fields["marks"] = {
            broker: {"logId": mark[0], "next": mark[1]} for broker, mark in (self.marks or {}).items()
        }
        return json.dumps(fields)
