"""The settings of a process that works for stores under a claim: where it listens, whom it asks, how long it holds on.

A worker's own settings extend these. It gives `port` a default of its own.
"""

from typing import Annotated, Literal

from msgspec import Meta

from gantry_chassis.addresses import reachable_address
from gantry_chassis.peer_settings import PeerSettings
from gantry_chassis.web_pages import AllowedHosts

Port = Annotated[int, Meta(ge=0, le=65535)]
HTTP_PORT_ABOVE = 2


class WorkerSettings(PeerSettings, frozen=True, kw_only=True):
    """What all workers have. Read as any settings are, see `settings`."""

    listen: Annotated[str, Meta(min_length=1, description="Address to bind.")] = "127.0.0.1"
    port: Annotated[Port, Meta(description="Remoting port; 0 takes a free one.")] = 0
    http_port: Annotated[
        Port | None, Meta(description="Port of health and metrics; by default the remoting port + 2.")
    ] = None
    allowed_hosts: AllowedHosts = ""
    advertise: Annotated[
        str, Meta(description="Host that gateways are told to connect to; empty: the one listened on.")
    ] = ""
    nameservers: Annotated[
        str,
        Meta(
            min_length=1,
            description="host:port;host:port, or an http(s):// address server that answers such a line.",
        ),
    ] = "127.0.0.1:9876"
    nats_url: Annotated[
        str, Meta(description="NATS for hints; empty: only the slow polls.", extra={"secret": True})
    ] = ""
    nats_token_file: Annotated[
        str,
        Meta(
            description="File that holds the token of NATS; empty: none is needed, or it stands in nats_url."
        ),
    ] = ""
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="Least severe events that are logged.")
    ] = "info"
    log_json: Annotated[bool, Meta(description="Log one JSON object a line.")] = False
    log_file: Annotated[
        str,
        Meta(
            description="File to log into, with all of stdout and stderr; moved aside to .1 at 8 MiB. Empty: stderr."
        ),
    ] = ""
    drain_seconds: Annotated[
        float, Meta(ge=0, le=60, description="How long answers may take to leave at the end.")
    ] = 2.0
    poll_seconds: Annotated[
        float, Meta(gt=0, le=600, description="How often nameservers are asked which stores there are.")
    ] = 5.0
    claim_ttl_ms: Annotated[
        int, Meta(ge=500, le=60_000, description="A claim not renewed for so long may be taken by another.")
    ] = 3000

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
