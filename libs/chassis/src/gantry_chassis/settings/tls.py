"""Settings of TLS: the certificate of a process's ports, and what its outgoing connections trust and show.

The certificate files of a service are read by `gantry_chassis.certificates`, those of outgoing connections by the connection pool.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gantry_chassis.settings.loading import SettingsRefused

Mode = Literal["disabled", "permissive", "enforcing"]

ROCKETMQ_TLS_NAMES = {
    "tls.server.mode": "tls_mode",
    "tls.server.certPath": "tls_cert_file",
    "tls.server.keyPath": "tls_key_file",
    "tls.server.trustCertPath": "tls_client_ca_file",
    "tls.server.need.client.auth": "tls_client_auth",
    "tls.enable": "tls_client",
    "tls.client.trustCertPath": "tls_ca_file",
    "tls.client.certPath": "tls_client_cert_file",
    "tls.client.keyPath": "tls_client_key_file",
}
"""RocketMQ's names of properties with the same meaning."""
ROCKETMQ_TLS_REFUSED = {
    "tls.test.mode.enable": (
        "true",
        "a self-signed certificate proves nothing to anybody: make one with `gantrymq access dev-certs` and set tls_cert_file",
    ),
    "tls.server.authClient": (
        "false",
        "a client certificate that nobody verifies proves nothing: set tls_client_ca_file, or tls_client_auth=none",
    ),
    "tls.client.authServer": (
        "false",
        "a connection to an unverified server is open to everyone between: set tls_ca_file",
    ),
}
"""RocketMQ's properties with the value that is refused, and why."""
ROCKETMQ_TLS_PASSWORDS = frozenset({"tls.server.keyPassword", "tls.client.keyPassword"})
IN_CLEAR = "a password in a settings file is no secret; put that of the ports' key into a file, named by tls_key_password_file, and use a client key without one"
SWITCHES = frozenset({"tls_mode", "tls_client_auth", "tls_client"})
"""Settings whose values are words. RocketMQ ignores their case."""


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A service's own settings extend these."""

    tls_mode: Annotated[
        Literal["", "disabled", "permissive", "enforcing"],
        Meta(
            description="disabled: no TLS; permissive: TLS and plain connections on the same ports; enforcing: only TLS. Empty: permissive if tls_cert_file is set, else disabled."
        ),
    ] = ""
    tls_cert_file: Annotated[
        str, Meta(description="PEM file of the certificate of all ports, followed by its chain.")
    ] = ""
    tls_key_file: Annotated[
        str, Meta(description="PEM file of its private key; empty: the key is in tls_cert_file.")
    ] = ""
    tls_key_password_file: Annotated[
        str, Meta(description="File that holds the password of the key; empty: the key is not encrypted.")
    ] = ""
    tls_client_ca_file: Annotated[
        str, Meta(description="PEM file of the authorities that sign client certificates.")
    ] = ""
    tls_client_auth: Annotated[
        Literal["none", "optional", "require"],
        Meta(
            description="Whether TLS clients show a certificate. One that no authority of tls_client_ca_file signed is always refused."
        ),
    ] = "none"
    tls_client: Annotated[bool, Meta(description="Connect to nameservers, stores and workers by TLS.")] = (
        False
    )
    tls_ca_file: Annotated[
        str,
        Meta(
            description="PEM file of the authorities trusted by outgoing connections; empty: those of the system."
        ),
    ] = ""
    tls_client_cert_file: Annotated[
        str, Meta(description="PEM file of the certificate shown by outgoing connections; empty: none.")
    ] = ""
    tls_client_key_file: Annotated[
        str, Meta(description="PEM file of its private key; empty: the key is in tls_client_cert_file.")
    ] = ""
    tls_verify_name: Annotated[
        bool,
        Meta(
            description="Outgoing connections require the host of the address in the server's certificate. Off: any certificate of the authorities will do."
        ),
    ] = True

    def __post_init__(self) -> None:
        """Refuse combinations that would be less secure than they look."""
        if self.tls_mode in {"permissive", "enforcing"} and not self.tls_cert_file:
            raise ValueError(f"tls_mode={self.tls_mode} needs a certificate: set tls_cert_file")
        if self.tls_client_auth != "none" and not self.tls_client_ca_file:
            raise ValueError(f"tls_client_auth={self.tls_client_auth} needs tls_client_ca_file")

    @property
    def tls_mode_used(self) -> Mode:
        """The mode: as set, or as the certificate implies."""
        return self.tls_mode or ("permissive" if self.tls_cert_file else "disabled")


def add_tls(values: dict[str, str], ignored: list[str], name: str, value: str, source: str) -> None:
    """Add RocketMQ's TLS property under our name, or to those without effect. Raises SettingsRefused."""
    refused, why = ROCKETMQ_TLS_REFUSED.get(name, ("", ""))
    if why and value.strip().lower() == refused:
        raise SettingsRefused(f"{source}: {name}={value}: {why}")
    if name in ROCKETMQ_TLS_PASSWORDS and value:
        raise SettingsRefused(f"{source}: {name}: {IN_CLEAR}")
    ours = ROCKETMQ_TLS_NAMES.get(name)
    if ours is None:
        ignored.append(name)
    else:
        values[ours] = value.strip().lower() if ours in SWITCHES else value.strip("\"'")
