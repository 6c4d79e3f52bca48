"""Signs requests for brokers with access control: HMAC-SHA1 over the values of all fields in order of their names, then the body.

The rule of RocketMQ's `AclClientRPCHook`. Pure.
"""

from __future__ import annotations

import base64
import hmac

from gantry_link.connections.connection import Fields
from gantry_wire.headers.typed_header import Header

ACCESS_KEY, SIGNATURE, SECURITY_TOKEN = "AccessKey", "Signature", "SecurityToken"


class Signer:
    """Adds access key and signature to the fields of a request."""

    __slots__ = ("_access_key", "_secret", "_token")

    def __init__(self, access_key: str, secret_key: str, security_token: str = "") -> None:
        self._access_key = access_key
        self._secret = secret_key.encode()
        self._token = security_token

    def __call__(self, header: Fields, body: bytes) -> dict[str, str]:
        """Return the fields of a request with access key and signature."""
        fields: dict[str, str] = header.to_fields() if isinstance(header, Header) else {**(header or {})}
        fields[ACCESS_KEY] = self._access_key
        if self._token:
            fields[SECURITY_TOKEN] = self._token
        content = "".join(fields[name] for name in sorted(fields) if name != SIGNATURE).encode() + body
        fields[SIGNATURE] = signature(self._secret, content)
        return fields


def signature(secret: bytes, content: bytes) -> str:
    """Return the Base64 of the HMAC-SHA1 of the content."""
    return base64.b64encode(hmac.digest(secret, content, "sha1")).decode()
