"""Every setting of a scheduler with default, unit and bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Port = Annotated[int, Meta(ge=0, le=65535)]


class SchedulerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings, as `name=value` lines in the file of -c, SCHEDULER_NAME in the environment, or --set name=value."""

    listen: Annotated[str, Meta(min_length=1, description="Address to bind.")] = "127.0.0.1"
    port: Annotated[Port, Meta(description="Remoting port; 0 takes a free one.")] = 10921
    http_port: Annotated[
        Port | None, Meta(description="Port of health and metrics; by default the remoting port + 2.")
    ] = None
    advertise: Annotated[
        str, Meta(description="Host under which gateways reach this scheduler; empty: as `listen`.")
    ] = ""
    data_dir: Annotated[
        Path, Meta(description="Where the due index lies: derived, made anew, never needs a backup.")
    ] = Path("data/scheduler")
    nameservers: Annotated[str, Meta(min_length=1, description="Nameservers, host:port divided by ;")] = (
        "127.0.0.1:9876"
    )
    nats_url: Annotated[
        str,
        Meta(description="NATS for hints that routes changed; empty: only polls.", extra={"secret": True}),
    ] = ""
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="Least severe events that are logged.")
    ] = "info"
    log_json: Annotated[bool, Meta(description="Log one JSON object a line.")] = False
    drain_seconds: Annotated[
        float, Meta(ge=0, le=60, description="How long answers may take to leave at the end.")
    ] = 2.0
    poll_seconds: Annotated[
        float, Meta(gt=0, le=600, description="How often nameservers are asked which stores there are.")
    ] = 5.0
    claim_ttl_ms: Annotated[
        int, Meta(ge=500, le=60_000, description="How long a claim lasts without being renewed.")
    ] = 3000
    settle_batch: Annotated[
        int, Meta(ge=1, le=4096, description="Due messages asked of a store in one request.")
    ] = 512
    settles_in_flight: Annotated[
        int, Meta(ge=1, le=64, description="Such requests on their way to one store, for each kind of delay.")
    ] = 2
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

    @property
    def http_port_or_next(self) -> int:
        """The HTTP port: as set, or beside the remoting port."""
        if self.http_port is not None:
            return self.http_port
        return self.port + 2 if self.port else 0
