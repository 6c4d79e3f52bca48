"""Settings of a process that works for stores under a claim: listen address, nameservers, claim time.

A worker's own settings extend these, with a default for `port`.
"""

from collections.abc import Callable
from typing import Annotated, Literal

from msgspec import Meta

from gantry_chassis.http.web_pages import AllowedHosts
from gantry_chassis.settings.access import AccessSettings

Port = Annotated[int, Meta(ge=0, le=65535)]
HTTP_PORT_ABOVE = 2


class WorkerSettings(AccessSettings, frozen=True, kw_only=True):
    """The settings all workers have; `settings` reads them."""

    listen: Annotated[str, Meta(min_length=1, description="Address to bind.")] = "127.0.0.1"
    port: Annotated[Port, Meta(description="Remoting port; 0 takes a free one.")] = 0
    http_port: Annotated[
        Port | None, Meta(description="Port of health and metrics; by default the remoting port + 2.")
    ] = None
    allowed_hosts: AllowedHosts = ""
    advertise: Annotated[
        str, Meta(description="Host advertised to gateways; empty: the one listened on.")
    ] = ""
    nameservers: Annotated[
        str,
        Meta(
            min_length=1,
            description="host:port;host:port, or an http(s):// address server that returns such a line.",
        ),
    ] = "127.0.0.1:9876"
    access_cluster: Annotated[
        str, Meta(min_length=1, description="Cluster whose rights count at the HTTP port.")
    ] = "DefaultCluster"
    nats_url: Annotated[
        str,
        Meta(
            description="URLs of NATS for hints, with commas between them; empty: only slow polls.",
            extra={"secret": True},
        ),
    ] = ""
    nats_token_file: Annotated[
        str,
        Meta(description="File with the token for NATS; empty: no token, or one in nats_url."),
    ] = ""
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="Lowest level that is logged.")
    ] = "info"
    log_json: Annotated[bool, Meta(description="Log one JSON object per line.")] = False
    log_file: Annotated[
        str,
        Meta(description="Log file, including stdout and stderr; renamed to .1 at 8 MiB. Empty: stderr."),
    ] = ""
    drain_seconds: Annotated[
        float, Meta(ge=0, le=60, description="Longest time to send pending answers at shutdown.")
    ] = 2.0
    poll_seconds: Annotated[
        float, Meta(gt=0, le=600, description="Seconds between queries of the nameservers for stores.")
    ] = 5.0
    claim_ttl_ms: Annotated[
        int, Meta(ge=500, le=60_000, description="A claim not renewed within this time can be taken over.")
    ] = 3000

    @property
    def http_port_or_next(self) -> int:
        """The HTTP port: as set, or derived from the remoting port."""
        if self.http_port is not None:
            return self.http_port
        return self.port + HTTP_PORT_ABOVE if self.port else 0

    def advertised_host(self, reachable_address: Callable[[str], str]) -> str:
        """Return the host advertised to others. `reachable_address`: the Environment's."""
        return self.advertise or reachable_address(self.listen)
