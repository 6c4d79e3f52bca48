"""Settings of a gateway's client. Validated on creation."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TypedDict
from urllib.parse import urlsplit

from gantry_link.connections.client_tls import ClientTlsFiles
from gantrymq.errors import ConfigurationError
from gantrymq.formats.basic_credentials import basic
from gantrymq.machine import THIS_MACHINE, Machine
from gantrymq.settings import check_number, take_keys
from gantrymq.tls import http_context

ADDRESS_VARIABLE = "GANTRY_HTTP"
TOKEN_VARIABLE = "GANTRY_TOKEN"  # noqa: S105 - the name of a variable
SECONDS_MAX = 86_400


class HttpOptions(TypedDict, total=False):
    """Keyword options that every client over HTTP takes; see HttpSettings for their meaning."""

    http: str
    token: str
    access_key: str
    secret_key: str
    timeout: float
    retries: int
    connections: int
    tls_ca_file: str
    tls_cert_file: str
    tls_key_file: str
    tls_verify_name: bool
    machine: Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """A gateway, as seen by a client. Raises ConfigurationError, which names the setting and its limit."""

    http: str = ""
    """Address of the gateway, as http://127.0.0.1:8080. Default: GANTRY_HTTP of the environment."""
    token: str = field(default="", repr=False)
    """A bearer token. Default: GANTRY_TOKEN of the environment."""
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    """A user and its secret, instead of a token. Default: GANTRY_ACCESS_KEY and GANTRY_SECRET_KEY of the environment, unless there is a token."""
    timeout: float = 10.0
    """Seconds for a call, all tries together; the wait of a receive is added."""
    retries: int = 5
    """How often a call is repeated, if that is safe and may help."""
    connections: int = 64
    """The most concurrent calls; others wait."""
    tls_ca_file: str = ""
    """With an https address: PEM file of the trusted authorities; empty: those of the system. Default of each TLS option: GANTRY_TLS_CA_FILE … of the environment."""
    tls_cert_file: str = ""
    """PEM file of the client certificate and its chain; empty: none is shown."""
    tls_key_file: str = ""
    """PEM file of its key; empty: the key is in `tls_cert_file`."""
    tls_verify_name: bool = True
    """Whether the server's certificate must name the host of its address."""
    machine: Machine = field(default=THIS_MACHINE, repr=False)
    """Clocks, randomness and the process id. For simulations."""

    def __post_init__(self) -> None:
        address = self.http or os.environ.get(ADDRESS_VARIABLE, "")
        if not address:
            raise ConfigurationError(
                f'http: no gateway is given; pass http="http://127.0.0.1:8080" or set {ADDRESS_VARIABLE}'
            )
        try:
            parts = urlsplit(address)
            is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            parts, is_address = urlsplit(""), False
        if not is_address:
            raise ConfigurationError(f"http: must be an address as http://127.0.0.1:8080, not {address!r}")
        # The scheme in lower case: what follows looks at it to decide whether the server is verified.
        object.__setattr__(self, "http", parts.geturl().rstrip("/"))
        self._take_credentials()
        check_number("timeout", self.timeout, 0.001, SECONDS_MAX)
        check_number("retries", self.retries, 0, 100)
        check_number("connections", self.connections, 1, 10_000)
        if self.http.startswith("https:"):
            http_context(self.tls_files)

    @property
    def tls_files(self) -> ClientTlsFiles:
        """The files of the TLS options."""
        return ClientTlsFiles(self.tls_ca_file, self.tls_cert_file, self.tls_key_file, self.tls_verify_name)

    def authorization(self) -> str:
        """Return the value of the header `Authorization`; empty without credentials."""
        if self.token:
            return f"Bearer {self.token}"
        return basic(self.access_key, self.secret_key) if self.access_key else ""

    def _take_credentials(self) -> None:
        """Complete the credentials from the environment: what is given as an option counts first, then a token."""
        if bool(self.access_key) != bool(self.secret_key):
            raise ConfigurationError("access_key and secret_key: give both or neither")
        if self.token and self.access_key:
            raise ConfigurationError("token, or access_key and secret_key: give one of the two")
        if not self.token and not self.access_key:
            chosen: dict[str, str] = {"token": os.environ.get(TOKEN_VARIABLE, "")}
            if not chosen["token"]:
                take_keys(chosen)
            for name, value in chosen.items():
                object.__setattr__(self, name, value)
        if ":" in self.access_key:
            raise ConfigurationError("access_key: HTTP cannot carry a user name with a colon; use a token")
