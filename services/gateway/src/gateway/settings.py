"""Every setting of the gateway with default, unit and bounds. Read once at start, passed on as plain values."""

from typing import Annotated, Literal

from msgspec import Meta

from gantry_chassis.http.web_pages import AllowedHosts
from gantry_chassis.machine.addresses import host_and_port
from gantry_chassis.settings.access import AccessSettings
from gantry_wire.limits import TOPIC_QUEUES_DEFAULT

Port = Annotated[int, Meta(ge=0, le=65535)]


class GatewaySettings(AccessSettings, frozen=True, kw_only=True):
    """Settings, as TOML in the file of -c, GATEWAY_NAME in the environment, or --set name=value."""

    listen: Annotated[str, Meta(min_length=1, description="Address to bind.")] = "127.0.0.1"
    port: Annotated[Port, Meta(description="HTTP port; 0 takes a free one.")] = 8080
    grpc_port: Annotated[
        int,
        Meta(
            ge=-1,
            le=65535,
            description="Port of RocketMQ's gRPC protocol, plain and TLS; 0 takes a free one, -1: none.",
        ),
    ] = 8081
    grpc_advertise: Annotated[
        str,
        Meta(
            description="host:port where gRPC clients reach the gateways; empty: where each client says that it came to."
        ),
    ] = ""
    grpc_tls: Annotated[
        bool,
        Meta(
            description="Without tls_cert_file, answer TLS on the gRPC port with a self-signed certificate made for it: RocketMQ's clients in Java, Go and C# ask for TLS and verify nothing."
        ),
    ] = True
    reuse_port: Annotated[
        bool,
        Meta(description="Share the port with other gateway processes (SO_REUSEPORT). Set on all of them."),
    ] = False
    health_port: Annotated[
        Port,
        Meta(
            description="Port on 127.0.0.1 at which this very process answers GET /health/live, where several share a port; 0: none."
        ),
    ] = 0
    worker_ports: Annotated[
        tuple[Port, ...],
        Meta(
            description="The health_port of every process that shares the port, by its number, separated by commas: /metrics then shows the metrics of all, with the label worker."
        ),
    ] = ()
    worker: Annotated[
        int, Meta(ge=0, le=255, description="Number of this process among those that share a port.")
    ] = 0
    nameservers: Annotated[
        str,
        Meta(description="host:port;host:port, or an http(s):// address server that answers such a line."),
    ] = "127.0.0.1:9876"
    nats_url: Annotated[
        str,
        Meta(
            description="URLs of NATS for hints, with commas between them; empty: only the slow polls.",
            extra={"secret": True},
        ),
    ] = ""
    nats_token_file: Annotated[
        str,
        Meta(
            description="File that holds the token of NATS; empty: none is needed, or nats_url contains it."
        ),
    ] = ""
    redis_url: Annotated[
        str,
        Meta(description="Redis for rate limits; needed only when one is set.", extra={"secret": True}),
    ] = ""
    redis_password_file: Annotated[
        str,
        Meta(
            description="File that holds the password of Redis; empty: none is needed, or redis_url contains it."
        ),
    ] = ""
    token: Annotated[
        str,
        Meta(
            description="Bearer token that every call must carry, where access control is off or lets it pass (access_mode=permissive); empty: none.",
            extra={"secret": True},
        ),
    ] = ""
    access_cluster: Annotated[
        str,
        Meta(
            min_length=1,
            description="Cluster whose rights count here.",
        ),
    ] = "DefaultCluster"
    jwt_issuer: Annotated[
        str, Meta(description="Issuer of the JWT that are accepted as bearers; empty: none are.")
    ] = ""
    jwt_audience: Annotated[
        str, Meta(description="Audience that a JWT must name; needed with jwt_issuer.")
    ] = ""
    jwt_jwks_url: Annotated[
        str,
        Meta(
            description="https address of the issuer's public keys (JWK set), read again every five minutes; this or jwt_jwks_file."
        ),
    ] = ""
    jwt_jwks_file: Annotated[
        str,
        Meta(description="File with the issuer's public keys (JWK set), read again when it changes."),
    ] = ""
    jwt_user_claim: Annotated[
        str, Meta(min_length=1, description="Claim of a JWT with the name of the user.")
    ] = "sub"
    cors_origins: Annotated[
        str,
        Meta(
            description="Origins whose pages may call, separated by commas; * for all, empty for our own pages only."
        ),
    ] = ""
    allowed_hosts: AllowedHosts = ""
    auto_create_topic: Annotated[
        bool, Meta(description="Create a topic at its first send instead of answering 404.")
    ] = False
    auto_create_queues: Annotated[
        int, Meta(ge=1, le=1024, description="Queues per broker of topics created at their first send.")
    ] = TOPIC_QUEUES_DEFAULT
    client_messages_per_second: Annotated[
        int,
        Meta(
            ge=0,
            le=10_000_000,
            description="Rate limit per client address (a call without messages counts one); 0: none.",
        ),
    ] = 0
    topic_messages_per_second: Annotated[
        int,
        Meta(ge=0, le=10_000_000, description="Rate limit of sends per topic, over all gateways; 0: none."),
    ] = 0
    rate_burst_seconds: Annotated[
        float, Meta(ge=0.1, le=3600, description="How many seconds' worth of a rate may come at once.")
    ] = 2.0
    request_timeout_ms: Annotated[
        int, Meta(ge=100, le=60_000, description="How long a store or nameserver may take to answer.")
    ] = 5000
    route_poll_seconds: Annotated[
        float, Meta(ge=1, le=600, description="Slow poll behind the route hints.")
    ] = 30.0
    known_broker_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="How long a broker that went away, and that no topic's queue list names, is 503 (away) instead of 404 (unknown).",
        ),
    ] = 600.0
    idempotency_window_seconds: Annotated[
        int,
        Meta(
            ge=1,
            le=86_400,
            description="The stores' idempotency window: keyed sends keep to a changed queue list's predecessor that long.",
        ),
    ] = 600
    delay_horizon_seconds: Annotated[
        int,
        Meta(
            ge=1,
            le=3650 * 86_400,
            description="How far ahead a delivery may lie; no more than the stores' own horizon.",
        ),
    ] = 40 * 86_400
    takeover_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=60,
            description="How long a call waits for a scheduler or checker while one takes over from another.",
        ),
    ] = 5.0
    leader_wait_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=60,
            description="How long a send waits for the next leader of a replicated broker: one that was certainly not stored, or has a key.",
        ),
    ] = 3.0
    topic_ready_seconds: Annotated[
        float, Meta(ge=0.1, le=60, description="How long a changed topic may take to reach every nameserver.")
    ] = 5.0
    drain_seconds: Annotated[
        int, Meta(ge=1, le=300, description="How long running requests may take at shutdown.")
    ] = 10
    gzip_bytes_min: Annotated[
        int,
        Meta(
            ge=0,
            le=2**31,
            description="Replies of at least this size are compressed where the client takes gzip; 0: never.",
        ),
    ] = 2048
    reports_dir: Annotated[
        str, Meta(description="Folder of reports to serve, read-only, at /v1/reports; empty: none.")
    ] = ""
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="Least severe events that are logged.")
    ] = "info"
    log_json: Annotated[bool, Meta(description="Log as JSON instead of text.")] = False
    log_file: Annotated[
        str,
        Meta(
            description="File to log into, with all of stdout and stderr; moved aside to .1 at 8 MiB. Empty: stderr."
        ),
    ] = ""

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other. Raises ValueError."""
        super().__post_init__()
        if self.grpc_advertise:
            host_and_port(self.grpc_advertise)
        if self.token and self.is_enforced:
            raise ValueError(
                "token and access_key_file are both set: with users, make tokens with POST /v1/tokens and clear the setting token"
            )
        if not self.jwt_issuer:
            if self.jwt_audience or self.jwt_jwks_url or self.jwt_jwks_file:
                raise ValueError("jwt_issuer is empty, but other settings of JWT are set")
            return
        if not self.access_key_file:
            raise ValueError("jwt_issuer needs access_key_file: a JWT names a user")
        if not self.jwt_audience:
            raise ValueError("jwt_issuer needs jwt_audience: tokens for other services would be accepted")
        if bool(self.jwt_jwks_url) == bool(self.jwt_jwks_file):
            raise ValueError("jwt_issuer needs one of jwt_jwks_url and jwt_jwks_file")
