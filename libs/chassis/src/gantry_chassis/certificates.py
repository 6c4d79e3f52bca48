"""The certificate of a process's ports: read at the start, and read again when one of its files changed.

A renewal may replace the certificate and keep its key, or replace both in any order. So the files are compared by their content, each
half second, and read again once they have not changed for one comparison. A pair that cannot be used is refused, and the old one stays.
New connections use the new certificate; open ones keep theirs.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from math import inf
from pathlib import Path
from typing import NamedTuple, TypeVar

from gantry_chassis.logs.structured import get_logger
from gantry_chassis.machine.private_files import warn_if_readable
from gantry_chassis.metrics import Metrics
from gantry_chassis.process import Life
from gantry_chassis.settings.tls import TlsSettings
from gantry_chassis.start_refusal import StartRefused

POLL_SECONDS = 0.5
SOON_SECONDS = 14 * 86_400.0
"""A certificate that expires within this time is logged as a warning."""
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2: only those with forward secrecy and authenticated encryption. TLS 1.3 has no others."""
OFFERED: tuple[tuple[str, ...], ...] = ((), ("h2",))
"""Protocols that ports offer to clients (ALPN, RFC 7301). A port of HTTP/1.1 offers none: browsers would choose HTTP/2 where they can."""
CLIENT_AUTH = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "require": ssl.CERT_REQUIRED}
S = TypeVar("S")
T = TypeVar("T")

_log = get_logger()


class CertificateRefused(Exception):
    """The files do not contain a usable certificate. The text names the file and the reason."""


class Contents(NamedTuple):
    """The contents of all files; empty where none is named."""

    certificate: bytes
    key: bytes
    password: bytes
    client_authorities: bytes


Found = Contents | str
"""The contents of the files, or why they cannot be read."""


class Loaded(NamedTuple):
    """A certificate in use."""

    contexts: dict[tuple[str, ...], ssl.SSLContext]
    """By what their ports offer."""
    begins: float
    expires: float
    """Both in seconds since 1970."""


class ServerCertificate:
    """The certificate of all ports of a process."""

    def __init__(self, settings: TlsSettings, wall: Callable[[], float]) -> None:
        """Read the files. `wall` returns the time in seconds since 1970. Raises CertificateRefused.

        An expired certificate is used at the start, with an error in the log: plain clients can still be served.
        """
        self._settings, self._wall = settings, wall
        contents = read_contents(settings)
        self._loaded = load(settings, contents)
        self._tried: Found = contents
        self._seen: Found = contents
        self._again_at = inf
        """When what was tried is tried again: a certificate that is not valid yet; seconds since 1970."""
        self.is_plain_allowed = settings.tls_mode_used != "enforcing"
        self.handshakes = 0
        """Contexts handed out: one for each TLS connection that began."""
        self.reloads = 0
        self.reload_failures = 0
        self._log_expiry()

    @property
    def seconds_left(self) -> float:
        """Seconds until the certificate expires; negative afterwards."""
        return self._loaded.expires - self._wall()

    def context(self, protocols: tuple[str, ...] = ()) -> ssl.SSLContext:
        """Return the context for a new connection of a port that offers these protocols (ALPN): one of OFFERED."""
        self.handshakes += 1
        return self._loaded.contexts[protocols]

    async def watch(self, sleep: Callable[[float], Awaitable[bool]]) -> None:
        """Read the files again when they changed, until `sleep` returns True."""
        while not await sleep(POLL_SECONDS):
            await self.look()

    async def look(self) -> None:
        """Compare the files with those in use, and read them if they changed and have settled since the last look."""
        found = await asyncio.to_thread(_found, self._settings)
        has_settled = found == self._seen
        was_tried = found == self._tried and self._wall() < self._again_at
        self._seen = found
        if was_tried or not has_settled:
            return
        self._tried, self._again_at = found, inf
        try:
            if isinstance(found, str):
                raise CertificateRefused(found)
            loaded = await asyncio.to_thread(load, self._settings, found)
            if loaded.expires <= self._wall():
                raise CertificateRefused(f"{self._settings.tls_cert_file}: the certificate has expired")
            if loaded.begins > self._wall():
                self._again_at = loaded.begins
                raise CertificateRefused(
                    f"{self._settings.tls_cert_file}: the certificate is not valid yet; it is used from its first second on"
                )
        except CertificateRefused as refused:
            self.reload_failures += 1
            _log.error(
                "new certificate refused; the old one stays in use",
                reason=str(refused),
                old_expires_in_seconds=round(self.seconds_left),
            )
            return
        self._loaded = loaded
        self.reloads += 1
        _log.info("new certificate in use", file=self._settings.tls_cert_file)
        self._log_expiry()

    def _log_expiry(self) -> None:
        left = self.seconds_left
        if left <= 0:
            _log.error("the certificate has expired: clients refuse it", file=self._settings.tls_cert_file)
        elif left < SOON_SECONDS:
            _log.warning(
                "the certificate expires soon",
                file=self._settings.tls_cert_file,
                days=round(left / 86_400, 1),
            )


def open_certificate(
    settings: TlsSettings, life: Life, metrics: Metrics, prefix: str
) -> ServerCertificate | None:
    """Return the certificate of a service, watched while it lives; None if TLS is disabled. Raises StartRefused."""
    if settings.tls_mode_used == "disabled":
        return None
    try:
        certificate = ServerCertificate(settings, life.environment.wall)
    except CertificateRefused as refused:
        raise StartRefused(f"TLS: {refused}") from refused
    for path in dict.fromkeys(
        (settings.tls_key_file or settings.tls_cert_file, settings.tls_key_password_file)
    ):
        if path:
            warn_if_readable(path, "a private key of TLS, or its password")
    life.supervise("certificate", lambda: certificate.watch(life.sleep))
    metrics.gauge(
        f"{prefix}_tls_certificate_seconds",
        "Seconds until the certificate expires; negative afterwards.",
        lambda: certificate.seconds_left,
    )
    metrics.counted(f"{prefix}_tls_handshakes", "TLS connections begun.", lambda: certificate.handshakes)
    metrics.counted(
        f"{prefix}_tls_reloads", "Changed certificates taken into use.", lambda: certificate.reloads
    )
    metrics.counted(
        f"{prefix}_tls_reload_failures",
        "Changed certificates refused; the old one stayed in use.",
        lambda: certificate.reload_failures,
    )
    return certificate


class OutgoingFiles:
    """The TLS files of a process's outgoing connections: bad ones refuse the start, and later, changed ones are logged and counted."""

    def __init__(self, metrics: Metrics, prefix: str) -> None:
        self._refusals = 0
        metrics.counted(
            f"{prefix}_tls_client_reload_failures",
            "Changed files for outgoing TLS connections refused; the old ones stayed in use.",
            lambda: self._refusals,
        )

    def open(self, make: Callable[[S, Callable[[str], None]], T], settings: S) -> T:
        """Return what `make` makes of the settings and of what gets later refusals. A ValueError of it refuses the start."""
        return checked_at_start(lambda given: make(given, self._refused), settings)

    def _refused(self, reason: str) -> None:
        self._refusals += 1
        _log.error(
            "changed files for outgoing TLS connections refused; the old ones stay in use", reason=reason
        )


def checked_at_start(make: Callable[[S], T], settings: S) -> T:
    """Return what `make` makes of the settings. A ValueError of it refuses the start."""
    try:
        return make(settings)
    except ValueError as error:
        raise StartRefused(f"TLS: {error}") from error


def read_contents(settings: TlsSettings) -> Contents:
    """Read all files. Raises CertificateRefused."""
    paths = (
        settings.tls_cert_file,
        settings.tls_key_file,
        settings.tls_key_password_file,
        settings.tls_client_ca_file,
    )
    return Contents(*(_content(path) for path in paths))


def load(settings: TlsSettings, contents: Contents) -> Loaded:
    """Return the certificate in the files, whose contents were read before. Raises CertificateRefused."""
    contexts = {protocols: _context(settings, contents, protocols) for protocols in OFFERED}
    begins, expires = _validity(settings.tls_cert_file, contents.certificate)
    if read_contents(settings) != contents:
        raise CertificateRefused(f"{settings.tls_cert_file}: it changed while it was read")
    return Loaded(contexts, begins, expires)


def _context(settings: TlsSettings, contents: Contents, protocols: tuple[str, ...]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if protocols:
        context.set_alpn_protocols(protocols)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    certificate, key = settings.tls_cert_file, settings.tls_key_file
    password = contents.password.strip()
    try:  # a password function, or else OpenSSL would ask the terminal for the one of an encrypted key
        context.load_cert_chain(certificate, key or None, password=lambda: password)
    except (OSError, ValueError) as error:
        raise CertificateRefused(_why(error, settings, contents)) from error
    if settings.tls_client_ca_file:
        try:
            context.load_verify_locations(settings.tls_client_ca_file)
        except OSError as error:
            raise CertificateRefused(f"{settings.tls_client_ca_file}: {_words(error)}") from error
        context.verify_mode = CLIENT_AUTH[settings.tls_client_auth]
        # A session that is continued proves a certificate without looking at it again, even when it has expired.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    return context


def _found(settings: TlsSettings) -> Found:
    try:
        return read_contents(settings)
    except CertificateRefused as refused:
        return str(refused)


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes() if path else b""
    except OSError as error:
        raise CertificateRefused(f"cannot read {path}: {error.strerror}") from error


def _why(error: Exception, settings: TlsSettings, contents: Contents) -> str:
    """Return which file is wrong, and how: OpenSSL says little about keys."""
    certificate, key = settings.tls_cert_file, settings.tls_key_file
    where = f"{certificate} and {key}" if key else certificate
    words = _words(error)
    if "KEY_VALUES_MISMATCH" in words:
        return f"{where}: the key belongs to another certificate"
    if b"ENCRYPTED" in (contents.key or contents.certificate):
        hint = "its password is wrong" if contents.password else "it is encrypted: set tls_key_password_file"
        return f"{key or certificate}: the key cannot be read, {hint}"
    return f"{where}: no certificate and private key in PEM ({words})"


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or str(error)
    return getattr(error, "strerror", None) or str(error)


def _validity(path: str, content: bytes) -> tuple[float, float]:
    """Return when the first certificate of a file begins and ends to be valid."""
    from cryptography import x509  # 8 MB, for processes with a certificate only

    try:
        first = x509.load_pem_x509_certificates(content)[0]
        return first.not_valid_before_utc.timestamp(), first.not_valid_after_utc.timestamp()
    except ValueError as error:
        raise CertificateRefused(f"{path}: {error}") from error
