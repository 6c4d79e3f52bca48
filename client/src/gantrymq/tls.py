"""TLS options of every client: which servers are trusted, and the certificate that is shown. Their defaults are in the environment."""

from __future__ import annotations

import logging
import os
import ssl
from typing import Any

from gantry_link.connections.client_tls import ClientTls, ClientTlsFiles, TlsContext, TlsFilesRefused
from gantrymq.errors import ConfigurationError

log: logging.Logger = logging.getLogger("gantrymq")

VARIABLES = {
    "tls": "GANTRY_TLS",
    "tls_ca_file": "GANTRY_TLS_CA_FILE",
    "tls_cert_file": "GANTRY_TLS_CERT_FILE",
    "tls_key_file": "GANTRY_TLS_KEY_FILE",
    "tls_verify_name": "GANTRY_TLS_VERIFY_NAME",
}
"""Option → variable with its default."""
SWITCHES = {"1": True, "true": True, "on": True, "0": False, "false": False, "off": False}


def tls_defaults() -> dict[str, Any]:
    """Return the options that the environment sets. Raises ConfigurationError for a switch that is neither on nor off."""
    found = {name: os.environ[variable] for name, variable in VARIABLES.items() if os.environ.get(variable)}
    return {
        name: _switch(name, value) if name in {"tls", "tls_verify_name"} else value
        for name, value in found.items()
    }


def http_tls_defaults() -> dict[str, Any]:
    """As `tls_defaults`, for a client whose address says whether it uses TLS."""
    return {name: value for name, value in tls_defaults().items() if name != "tls"}


def check_tls(files: ClientTlsFiles) -> TlsContext:
    """Return the contexts for connections with these files. Raises ConfigurationError, which names the file."""
    if files.key and not files.certificate:
        raise ConfigurationError("tls_key_file: the key of a certificate, and tls_cert_file names none")
    try:
        return ClientTls(files, _report).context
    except TlsFilesRefused as error:
        raise ConfigurationError(f"tls: {error}") from error


def http_context(files: ClientTlsFiles) -> ssl.SSLContext | None:
    """Return the context for HTTPS; None if nothing is set, so that the HTTP library decides. Raises ConfigurationError."""
    return None if files == ClientTlsFiles() else check_tls(files)()


def _report(reason: str) -> None:
    log.error("changed TLS files refused; the old ones stay in use: %s", reason)


def _switch(name: str, value: str) -> bool:
    try:
        return SWITCHES[value.lower()]
    except KeyError:
        raise ConfigurationError(f"{VARIABLES[name]}: {value!r} is neither 1 nor 0") from None
