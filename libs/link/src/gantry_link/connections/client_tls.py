"""The TLS side of outgoing connections: which authorities are trusted, and the certificate that is shown.

The files are read again when one of them changed, so that a renewed client certificate needs no restart. Changed files that cannot be used
are reported, and keep the old context.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

TlsContext = Callable[[], ssl.SSLContext]
"""Returns the context for a new connection."""
ReportRefusal = Callable[[str], None]
"""Gets why changed files are not used, in words that name the file: once for each change."""
OLDEST_VERSION = ssl.TLSVersion.TLSv1_2


class TlsFilesRefused(ValueError):
    """The files for outgoing TLS connections cannot be used. The text names the file."""


@dataclass(frozen=True, slots=True)
class ClientTlsFiles:
    """What a client trusts and shows."""

    authorities: str = ""
    """PEM file of the trusted authorities; empty: those of the system."""
    certificate: str = ""
    """PEM file of the client certificate and its chain; empty: none is shown."""
    key: str = ""
    """PEM file of its key; empty: the key is in the certificate's file."""
    verify_name: bool = True
    """Whether the server's certificate must name the host of the address."""


class ClientTls:
    """Provides the context of new connections."""

    def __init__(self, files: ClientTlsFiles, report: ReportRefusal) -> None:
        """Read the files. `report` gets later refusals. Raises TlsFilesRefused."""
        self._files, self._report = files, report
        self._state = _state(files)
        self._context = client_context(files)

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection. Never raises: files that became unreadable keep the old one."""
        state = _state(self._files)
        if state != self._state:
            self._state = state
            try:
                self._context = client_context(self._files)
            except TlsFilesRefused as refused:  # perhaps amid a renewal: the next change is read again
                self._report(str(refused))
        return self._context


class ClientTlsSettings(Protocol):
    """The settings of a service for its outgoing connections."""

    @property
    def tls_client(self) -> bool:
        """Whether outgoing connections use TLS."""
        ...

    @property
    def tls_ca_file(self) -> str:
        """PEM file of the trusted authorities."""
        ...

    @property
    def tls_client_cert_file(self) -> str:
        """PEM file of the client certificate."""
        ...

    @property
    def tls_client_key_file(self) -> str:
        """PEM file of its key."""
        ...

    @property
    def tls_verify_name(self) -> bool:
        """Whether names are verified."""
        ...


class HintsTlsSettings(ClientTlsSettings, Protocol):
    """The settings of a service that connects to NATS."""

    @property
    def nats_url(self) -> str:
        """URL of NATS."""
        ...


def outgoing_tls(settings: ClientTlsSettings, report: ReportRefusal) -> TlsContext | None:
    """Return the contexts for a pool, None while `tls_client` is off. Raises TlsFilesRefused."""
    return ClientTls(files_of(settings), report).context if settings.tls_client else None


def hints_tls(settings: HintsTlsSettings, report: ReportRefusal) -> TlsContext | None:
    """Return the contexts for NATS, None unless its URL names tls://, in any case. Raises TlsFilesRefused."""
    return ClientTls(files_of(settings), report).context if "tls://" in settings.nats_url.lower() else None


def files_of(settings: ClientTlsSettings) -> ClientTlsFiles:
    """Return the files that the settings name."""
    return ClientTlsFiles(
        settings.tls_ca_file,
        settings.tls_client_cert_file,
        settings.tls_client_key_file,
        settings.tls_verify_name,
    )


def client_context(files: ClientTlsFiles) -> ssl.SSLContext:
    """Return a context that verifies servers. TLS 1.2 or newer. Raises TlsFilesRefused.

    Names may be left unverified only with authorities of one's own: those of the system give a certificate to every owner of a name.
    """
    if not (files.verify_name or files.authorities):
        raise TlsFilesRefused(
            "tls_verify_name=false needs a file of authorities in tls_ca_file: with those of the system, everybody's certificate would do"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = OLDEST_VERSION
    context.check_hostname = files.verify_name
    try:
        if files.authorities:
            context.load_verify_locations(files.authorities)
        else:
            context.load_default_certs()
    except OSError as error:
        raise TlsFilesRefused(
            f"cannot read the authorities in {files.authorities}: {_words(error)}"
        ) from error
    if files.certificate:
        try:
            context.load_cert_chain(files.certificate, files.key or None, password=_no_password)
        except OSError as error:
            where = " and ".join(filter(None, (files.certificate, files.key)))
            raise TlsFilesRefused(f"cannot use the client certificate in {where}: {_words(error)}") from error
    return context


def _no_password() -> str:
    """Return no password: OpenSSL would ask the terminal for one."""
    return ""


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or str(error)
    return error.strerror or str(error)


def _state(files: ClientTlsFiles) -> tuple[tuple[int, int, int], ...]:
    """Return what changes when a file is replaced or rewritten."""
    return tuple(_file_state(path) for path in (files.authorities, files.certificate, files.key) if path)


def _file_state(path: str) -> tuple[int, int, int]:
    try:
        found = Path(path).stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_mtime_ns, found.st_size)
