"""Every setting of a txn-checker with default, unit and bounds."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gantry_chassis.addresses import reachable_address
from txn_checker.check_policy import Policy

Port = Annotated[int, Meta(ge=0, le=65535)]
HTTP_PORT_ABOVE = 2


class CheckerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings, as `name=value` lines in the file of -c, TXN_CHECKER_NAME in the environment, or --set name=value."""

    listen: Annotated[str, Meta(min_length=1, description="Address to bind.")] = "127.0.0.1"
    port: Annotated[Port, Meta(description="Remoting port; 0 takes a free one.")] = 10931
    http_port: Annotated[
        Port | None, Meta(description="Port of health and metrics; by default the remoting port + 2.")
    ] = None
    advertise: Annotated[
        str, Meta(description="Host that gateways are told to connect to; empty: the one listened on.")
    ] = ""
    nameservers: Annotated[
        str,
        Meta(description="host:port;host:port, or an http(s):// address server that answers such a line."),
    ] = "127.0.0.1:9876"
    nats_url: Annotated[
        str, Meta(description="NATS for hints; empty: only the slow polls.", extra={"secret": True})
    ] = ""
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="Least severe events that are logged.")
    ] = "info"
    log_json: Annotated[bool, Meta(description="Log one JSON object a line.")] = False
    drain_seconds: Annotated[
        float, Meta(ge=0, le=60, description="How long answers may take to leave at the end.")
    ] = 2.0
    claim_ttl_ms: Annotated[
        int, Meta(ge=500, le=60_000, description="A claim not renewed for so long may be taken by another.")
    ] = 3000
    poll_ms: Annotated[
        int, Meta(ge=20, le=10_000, description="Between two looks at what was decided meanwhile.")
    ] = 1000
    transaction_timeout_ms: Annotated[
        int, Meta(ge=0, le=86_400_000, description="A half is left alone for so long before its first check.")
    ] = 6000
    check_interval_ms: Annotated[
        int, Meta(ge=100, le=86_400_000, description="Between two checks of one half.")
    ] = 30_000
    check_max: Annotated[
        int, Meta(ge=1, le=10_000, description="After so many checks in vain a half is given up.")
    ] = 15
    retention_hours: Annotated[
        int,
        Meta(ge=1, le=100_000, description="A half older than this is given up, however often it was asked."),
    ] = 72

    @property
    def http_port_or_next(self) -> int:
        """The HTTP port: as set, or beside the remoting port."""
        if self.http_port is not None:
            return self.http_port
        return self.port + HTTP_PORT_ABOVE if self.port else 0

    @property
    def advertised_host(self) -> str:
        """Host that others are told to connect to."""
        return self.advertise or reachable_address(self.listen)

    def policy(self) -> Policy:
        """Return when, how often and how long is asked."""
        return Policy(
            self.transaction_timeout_ms,
            self.check_interval_ms,
            self.check_max,
            self.retention_hours * 3_600_000,
        )
