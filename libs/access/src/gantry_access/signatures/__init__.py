"""Proofs that a client knows its secret: the signature of remoting requests and the `authorization` header of gRPC.

Nothing is cached: every request is verified with the secrets that are live at that moment.
"""

from gantry_access.signatures.errors import AuthenticationRefused
from gantry_access.signatures.grpc_header import Claim, is_fresh, read_authorization
from gantry_access.signatures.remoting import claimed_user, is_signed, sign, signed_content
from gantry_access.signatures.signing_key import SigningKey, is_signature

__all__ = [
    "AuthenticationRefused",
    "Claim",
    "SigningKey",
    "claimed_user",
    "is_fresh",
    "is_signature",
    "is_signed",
    "read_authorization",
    "sign",
    "signed_content",
]
