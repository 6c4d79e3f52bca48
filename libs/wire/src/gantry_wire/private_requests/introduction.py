"""Headers of an introduction (9050, 9051): how two of Gantry's own services prove on a new connection that they share a secret.

    client → server   9050 INTRODUCE   role, nonce, address
    server → client   0                nonce, proofs
    client → server   9051 PROVE       proof
    server → client   0

A nonce is 32 random bytes, a proof an HMAC-SHA256, both in Base64. `gantry_guard.introduction` makes and checks them. Layout only.
"""

from __future__ import annotations

from gantry_wire.headers.typed_header import Header

NONCE_SIZE = 32
PROOF_SIZE = 32
ROLE_CHARS_MAX = 64


class IntroduceHeader(Header, kw_only=True, rename="camel", gc=False):
    """9050: the client begins."""

    role: str
    """The service, such as `gateway`, for logs."""
    nonce: str
    address: str
    """The IP address and port to which the client connected, so that no server can pass an introduction on to another one."""


class IntroduceReplyHeader(Header, kw_only=True, rename="camel", gc=False):
    """Answer of 9050: the server proves itself first."""

    nonce: str
    proofs: str
    """One for each key of the server, separated by spaces: the client may have only one of them."""


class ProveHeader(Header, kw_only=True, rename="camel", gc=False):
    """9051: the client proves itself, with the key that made one of the server's proofs."""

    proof: str
