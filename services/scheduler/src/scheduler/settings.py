"""Every setting of a scheduler beside those of all workers, with default, unit and bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from gantry_chassis.worker_settings import Port, WorkerSettings


class SchedulerSettings(WorkerSettings, frozen=True, kw_only=True):
    """Settings, as `name=value` lines in the file of -c, SCHEDULER_NAME in the environment, or --set name=value."""

    port: Annotated[Port, Meta(description="Remoting port; 0 takes a free one.")] = 10921
    data_dir: Annotated[
        Path,
        Meta(
            description="Where the due index lies: derived, may be deleted while it is stopped, never needs a backup."
        ),
    ] = Path("data/scheduler")
    settle_batch: Annotated[
        int, Meta(ge=1, le=4096, description="Due messages asked of a store in one request.")
    ] = 512
    settles_in_flight: Annotated[
        int,
        Meta(
            ge=1,
            le=64,
            description="Moments whose due messages are on their way to one store at once, while few are due.",
        ),
    ] = 8
    burst_per_second: Annotated[
        float,
        Meta(
            ge=1,
            description="When very many are due at once: below this rate others get less than half the store.",
        ),
    ] = 12_000.0
    park_after_hours: Annotated[
        float,
        Meta(gt=0, le=10_000, description="What cannot be delivered for so long is set aside (parked)."),
    ] = 72.0
