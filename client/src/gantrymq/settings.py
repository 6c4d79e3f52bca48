"""Settings of every client: the cluster's address, the client's identity, timeouts. Validated on creation; reads no file."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypedDict, TypeVar, cast

from gantry_link.clients.nameserver_addresses import SCHEMES, split_list
from gantry_link.connections.client_tls import ClientTlsFiles
from gantry_link.errors import LinkError
from gantrymq.errors import ConfigurationError
from gantrymq.machine import THIS_MACHINE, Machine
from gantrymq.tls import check_tls, tls_defaults

DEFAULT_INSTANCE = "DEFAULT"
NAMESERVERS_VARIABLE = "NAMESRV_ADDR"
ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE = "GANTRY_ACCESS_KEY", "GANTRY_SECRET_KEY"
_NAME = re.compile(r"[%|a-zA-Z0-9_.#-]*")
SettingsT = TypeVar("SettingsT")


class ClientOptions(TypedDict, total=False):
    """Keyword options that every producer and consumer takes; see ClientSettings for their meaning."""

    nameservers: str | Sequence[str]
    namespace: str
    unit: str
    instance_name: str
    access_key: str
    secret_key: str
    security_token: str
    vip_channel: bool
    tls: bool
    tls_ca_file: str
    tls_cert_file: str
    tls_key_file: str
    tls_verify_name: bool
    request_timeout: float
    connect_timeout: float
    route_poll_interval: float
    heartbeat_interval: float
    machine: Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """A cluster, as seen by a client. Clients with equal settings in one event loop share connections and heartbeats.

    All times are in seconds. Raises ConfigurationError, which names the setting and its limit.
    """

    nameservers: str
    """"host:port", several separated by ";", or an http(s) URL that returns such a list. Default: NAMESRV_ADDR of the environment."""
    namespace: str = ""
    """A prefix of every topic and group, which separates the tenants of a cluster."""
    unit: str = ""
    """Name of the deployment unit; becomes part of the client id."""
    instance_name: str = DEFAULT_INSTANCE
    """Separates clients of one process that must not share connections."""
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    """With an access key it signs every request (HMAC-SHA1). Default of both: GANTRY_ACCESS_KEY and GANTRY_SECRET_KEY of the environment."""
    security_token: str = field(default="", repr=False)
    vip_channel: bool = False
    """Sends go to the broker's second listener, whose port is two below the first."""
    tls: bool = False
    """Connections to nameservers and brokers use TLS. Each TLS option has its default in the environment: GANTRY_TLS, GANTRY_TLS_CA_FILE …"""
    tls_ca_file: str = ""
    """PEM file of the trusted authorities; empty: those of the system."""
    tls_cert_file: str = ""
    """PEM file of the client certificate and its chain; empty: none is shown."""
    tls_key_file: str = ""
    """PEM file of its key; empty: the key is in `tls_cert_file`."""
    tls_verify_name: bool = True
    """Whether the server's certificate must name the host of its address."""
    request_timeout: float = 3.0
    connect_timeout: float = 3.0
    route_poll_interval: float = 30.0
    heartbeat_interval: float = 30.0
    machine: Machine = field(default=THIS_MACHINE, repr=False)
    """Clocks, randomness and the process id. For simulations."""

    def __post_init__(self) -> None:
        try:
            listed = (
                [self.nameservers] if self.nameservers.startswith(SCHEMES) else split_list(self.nameservers)
            )
        except LinkError as error:
            raise ConfigurationError(f"nameservers: {error}") from error
        if not listed:
            raise ConfigurationError(
                f'nameservers: none is given; pass nameservers="host:9876" or set {NAMESERVERS_VARIABLE}'
            )
        for name in ("namespace", "unit", "instance_name"):
            check_text(name, getattr(self, name))
        if bool(self.access_key) != bool(self.secret_key):
            raise ConfigurationError("access_key and secret_key: give both or neither")
        for name in ("request_timeout", "connect_timeout", "route_poll_interval", "heartbeat_interval"):
            check_number(name, getattr(self, name), 0.01, 86_400)
        if self.tls:
            check_tls(self.tls_files)

    @property
    def tls_files(self) -> ClientTlsFiles:
        """The files of the TLS options."""
        return ClientTlsFiles(self.tls_ca_file, self.tls_cert_file, self.tls_key_file, self.tls_verify_name)


def client_settings(options: ClientOptions) -> ClientSettings:
    """Return the settings of a client's keyword options; ConfigurationError if one is wrong or unknown."""
    chosen = cast("dict[str, Any]", dict(options))
    servers: object = chosen.get("nameservers") or os.environ.get(NAMESERVERS_VARIABLE, "")
    if not isinstance(servers, str):
        if not isinstance(servers, Sequence):
            raise ConfigurationError(f"nameservers: must be text or a list of text, not {servers!r}")
        servers = ";".join(map(str, cast("Sequence[object]", servers)))
    chosen["nameservers"] = servers
    take_keys(chosen)
    return make_settings(ClientSettings, tls_defaults() | chosen)


def take_keys(chosen: dict[str, Any]) -> None:
    """Add the access key and its secret of the environment to options that have neither. Raises ConfigurationError for one without the other."""
    if chosen.get("access_key") or chosen.get("secret_key"):
        return
    access_key, secret_key = os.environ.get(ACCESS_KEY_VARIABLE, ""), os.environ.get(SECRET_KEY_VARIABLE, "")
    if bool(access_key) != bool(secret_key):
        raise ConfigurationError(f"{ACCESS_KEY_VARIABLE} and {SECRET_KEY_VARIABLE}: set both or neither")
    if access_key:
        chosen["access_key"], chosen["secret_key"] = access_key, secret_key


CLIENT_OPTIONS = frozenset(ClientOptions.__annotations__)


def split_options(options: dict[str, Any]) -> tuple[ClientOptions, dict[str, Any]]:
    """Return the options of the client, and the others."""
    of_client = {name: value for name, value in options.items() if name in CLIENT_OPTIONS}
    others = {name: value for name, value in options.items() if name not in CLIENT_OPTIONS}
    return cast("ClientOptions", of_client), others


def make_settings(kind: type[SettingsT], options: dict[str, Any]) -> SettingsT:
    """Return a settings dataclass from options; ConfigurationError names unknown ones."""
    known = [one.name for one in fields(cast("Any", kind))]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ConfigurationError(f"unknown option {', '.join(unknown)}; available: {', '.join(known)}")
    return kind(**options)


def check_number(name: str, value: object, least: float, most: float) -> None:
    """Raise ConfigurationError unless a setting is a number between two bounds, both included."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigurationError(f"{name}: must be a number, not {value!r}")
    if not least <= value <= most:
        raise ConfigurationError(f"{name}: {value:g} is outside {least:g} to {most:g}")


def check_text(name: str, value: object) -> None:
    """Raise ConfigurationError unless a setting can be part of a name."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ConfigurationError(f"{name}: only letters, digits and % | - _ . #, not {value!r}")
