"""The scheduler's settings beyond those of all workers, with default, unit and bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from gantry_chassis.settings.worker import Port, WorkerSettings


class SchedulerSettings(WorkerSettings, frozen=True, kw_only=True):
    """Settings, as `name=value` lines in the file of -c, SCHEDULER_NAME in the environment, or --set name=value."""

    port: Annotated[Port, Meta(description="Remoting port; 0 takes a free one.")] = 10921
    data_dir: Annotated[
        Path,
        Meta(
            description="Directory of the due index. It is derived: delete it while the scheduler is stopped, and never back it up."
        ),
    ] = Path("data/scheduler")
    settle_batch: Annotated[int, Meta(ge=1, le=4096, description="Due messages in one settle request.")] = 512
    settles_in_flight: Annotated[
        int,
        Meta(
            ge=1,
            le=64,
            description="Rounds of due messages in flight to one store, while few are due.",
        ),
    ] = 8
    burst_per_second: Annotated[
        float,
        Meta(
            ge=1,
            description="Burst rate below which other clients get less than half of the store.",
        ),
    ] = 12_000.0
    park_after_hours: Annotated[
        float,
        Meta(gt=0, le=10_000, description="Hours of failed delivery after which a message is parked."),
    ] = 72.0
