"""A certificate that the gRPC port makes for itself: it encrypts, and proves nothing.

RocketMQ's clients in Java, Go and C# begin with TLS and accept any certificate, as the one of RocketMQ's own proxy is self-signed.
"""

import os
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from gantry_chassis.certificates import CIPHERS

NAME: Final = "gantry gRPC, self-signed"
DAYS: Final = 3650


class SelfSigned:
    """Makes its certificate at the first connection with TLS, so a process without such clients has no key."""

    def __init__(self, wall: Callable[[], float]) -> None:
        """`wall` returns seconds since 1970."""
        self._wall = wall
        self.is_plain_allowed = True
        self._contexts: dict[tuple[str, ...], ssl.SSLContext] = {}

    def context(self, protocols: tuple[str, ...], /) -> ssl.SSLContext:
        """Return the context for a new connection, whose client may choose one of these protocols (ALPN)."""
        found = self._contexts.get(protocols)
        if found is None:
            found = self._contexts[protocols] = _context(_certificate_and_key(self._wall()), protocols)
        return found


def _context(pem: bytes, protocols: tuple[str, ...]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    # OpenSSL reads a key from a file only, and a container may have no disk to write to: this one is in memory.
    with os.fdopen(os.memfd_create(NAME), "wb") as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context


def _certificate_and_key(now: float) -> bytes:
    # The package takes 60 ms and some MB: only a port with such connections loads it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    begin = datetime.fromtimestamp(now, UTC) - timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM) + private
