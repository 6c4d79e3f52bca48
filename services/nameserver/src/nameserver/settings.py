"""The nameserver's settings with default, unit and bounds, and the mapping of RocketMQ's names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gantry_chassis.http.web_pages import AllowedHosts
from gantry_chassis.settings.access import AccessSettings
from gantry_chassis.settings.loading import SettingsRefused
from gantry_chassis.settings.tls import add_tls
from gantry_wire.bodies.config_text import parse_config_text
from gantry_wire.errors import MalformedBody
from nameserver.switches import ScanMs, Switches, WaitSeconds

Port = Annotated[int, Meta(ge=0, le=65535)]


class NameserverSettings(AccessSettings, frozen=True, kw_only=True):
    """Settings, as `name=value` lines in the file of -c, NAMESERVER_NAME in the environment, or --set name=value."""

    listen: Annotated[str, Meta(min_length=1, description="Address to bind.")] = "127.0.0.1"
    port: Annotated[Port, Meta(description="Remoting port; 0 takes a free one.")] = 9876
    http_port: Annotated[
        Port | None, Meta(description="Port of health and metrics; by default the remoting port + 1.")
    ] = None
    allowed_hosts: AllowedHosts = ""
    access_cluster: Annotated[
        str,
        Meta(
            min_length=1,
            description="Cluster whose rights count here for requests that name none.",
        ),
    ] = "DefaultCluster"
    access_open_routes: Annotated[
        bool,
        Meta(
            description="Answer the route of a topic (105) to everybody, as RocketMQ does: clients that prove no user then get 16 from the broker. Needs access_key_file."
        ),
    ] = False
    data_dir: Annotated[Path, Meta(description="Directory of kvConfig.json and namesrv.properties.")] = Path(
        "data/nameserver"
    )
    nats_url: Annotated[
        str,
        Meta(
            description="URLs of NATS for route hints, with commas between them; empty: no hints.",
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
    idle_seconds: Annotated[
        float, Meta(ge=1, le=86_400, description="A connection without traffic is closed after this time.")
    ] = 120.0
    drain_seconds: Annotated[
        float, Meta(ge=0, le=60, description="Longest time to send pending answers at shutdown.")
    ] = 2.0
    product_env_name: Annotated[str, Meta(description="Shown to tools; has no effect.")] = "center"
    config_black_list: Annotated[
        str,
        Meta(description="Additional names that may not be changed at run time, separated by ;."),
    ] = ""
    order_message_enable: Annotated[
        bool, Meta(description="Return a topic's order configuration with its route.")
    ] = False
    return_order_topic_config_to_broker: Annotated[
        bool, Meta(description="Return the order configuration to every registering broker.")
    ] = True
    enable_all_topic_list: Annotated[bool, Meta(description="Answer lists of all topics (206).")] = True
    enable_topic_list: Annotated[bool, Meta(description="Answer the other topic lists.")] = True
    support_acting_master: Annotated[
        bool, Meta(description="Show the lowest slave of a broker without master as its master.")
    ] = False
    notify_min_broker_id_changed: Annotated[
        bool, Meta(description="Notify the members of a broker name when their lowest id changes.")
    ] = False
    delete_topic_with_broker_registration: Annotated[
        bool, Meta(description="Remove topics a registering broker does not name.")
    ] = False
    need_wait_for_service: Annotated[
        bool, Meta(description="Refuse route requests until wait_seconds_for_service have passed.")
    ] = False
    wait_seconds_for_service: Annotated[WaitSeconds, Meta(description="See need_wait_for_service.")] = 45
    scan_not_active_broker_interval: Annotated[
        ScanMs, Meta(description="Milliseconds between scans for silent brokers.")
    ] = 5000

    def __post_init__(self) -> None:
        """Refuse open routes where all requests are open."""
        super().__post_init__()
        if self.access_open_routes and not self.access_key_file:
            raise ValueError("access_open_routes=true needs access_key_file: without it every route is open")

    def switches(self) -> Switches:
        """Return the settings that may change at run time."""
        return Switches(**{name: getattr(self, name) for name in Switches.__struct_fields__})

    @property
    def http_port_or_next(self) -> int:
        """The HTTP port: as set, or the one after the remoting port."""
        if self.http_port is not None:
            return self.http_port
        return self.port + 1 if self.port else 0


ROCKETMQ_NAMES = {
    "listenPort": "port",
    "bindAddress": "listen",
    "serverChannelMaxIdleTimeSeconds": "idle_seconds",
    **{info.encode_name: info.name for info in msgspec.structs.fields(Switches)},
    "productEnvName": "product_env_name",
    "configBlackList": "config_black_list",
}
"""Supported names of RocketMQ's namesrv.conf."""


def read_conf(path: Path, ignored: list[str]) -> dict[str, str]:
    """Read the file of -c: `name=value` lines by our names or RocketMQ's; `ignored` collects others."""
    try:
        values = parse_config_text(path.read_bytes())
    except (OSError, MalformedBody) as error:
        raise SettingsRefused(f"cannot read the settings file {path}: {error}") from error
    known: dict[str, str] = {}
    for name, value in values.items():
        if name.startswith("tls."):
            add_tls(known, ignored, name, value, str(path))
            continue
        ours = ROCKETMQ_NAMES.get(name, name)
        if ours in NameserverSettings.__struct_fields__:
            known[ours] = value.strip("\"'")
        else:
            ignored.append(name)
    return known
