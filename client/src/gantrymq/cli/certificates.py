"""Makes certificates for trying TLS: an authority of its own, and what it signs. For tests and laptops, not for production."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAYS = 825
"""The longest time that all common clients accept for a server's certificate."""
BEGUN_BEFORE = dt.timedelta(minutes=5)
"""Clocks of other machines may be slow."""


class Pair(NamedTuple):
    """A certificate and its private key, in PEM (the key in PKCS#8, as RocketMQ reads it)."""

    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority with a fresh key."""

    def __init__(self, name: str = "Gantry development authority", days: float = DAYS) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        public = self._key.public_key()
        self._id = x509.SubjectKeyIdentifier.from_public_key(public)
        self._certificate = (
            _begun(self._name, self._name, public, days)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(self._id, critical=False)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def certificate(self) -> bytes:
        """The certificate of the authority, in PEM."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def pair(self) -> Pair:
        """The certificate of the authority and its key."""
        return Pair(self.certificate, _pem(self._key))

    def issue(
        self, names: Sequence[str], *, is_client: bool = False, days: float = DAYS, key: bytes | None = None
    ) -> Pair:
        """Return a certificate for these host names, IP addresses and URIs.

        `days`: how long it is valid; negative: it has expired. `key`: an earlier key, for a renewal.
        """
        own = _loaded(key) if key is not None else ec.generate_private_key(ec.SECP256R1())
        public = own.public_key()
        purpose = ExtendedKeyUsageOID.CLIENT_AUTH if is_client else ExtendedKeyUsageOID.SERVER_AUTH
        certificate = (
            _begun(_name(names[0]), self._name, public, days)
            .add_extension(x509.SubjectAlternativeName([_general(one) for one in names]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._id), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        return Pair(certificate.public_bytes(serialization.Encoding.PEM), _pem(own))


def _begun(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, days: float
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    end = now + dt.timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now - BEGUN_BEFORE, end - BEGUN_BEFORE))
        .not_valid_after(end)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.UniformResourceIdentifier(name) if ":" in name else x509.DNSName(name)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _loaded(key: bytes) -> ec.EllipticCurvePrivateKey:
    loaded = serialization.load_pem_private_key(key, None)
    assert isinstance(loaded, ec.EllipticCurvePrivateKey)
    return loaded
