"""What a run did, for people and for programs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from gantry_spark.source.plan import Lost


@dataclass(frozen=True)
class Result:
    """What one run did."""

    rows: int = 0
    files: int = 0
    bytes: int = 0
    dead_rows: int = 0
    damaged: int = 0
    lost: tuple[Lost, ...] = ()
    """Ranges of logs that were gone before they were exported."""
    marks: dict[str, list[Any]] | None = None
    seconds: float = 0.0

    def to_json(self) -> str:
        """Return it as one line."""
        told = asdict(self)
        told["deadRows"] = told.pop("dead_rows")
        told["lostBytes"] = sum(one.stop - one.start for one in self.lost)
        told["lost"] = [{"broker": one.broker, "from": one.start, "to": one.stop} for one in self.lost]
        told["marks"] = {
            broker: {"logId": mark[0], "next": mark[1]} for broker, mark in (self.marks or {}).items()
        }
        return json.dumps(told)
