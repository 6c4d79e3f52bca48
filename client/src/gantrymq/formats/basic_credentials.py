"""The header `Authorization` for a user and its secret. Pure."""

import base64


def basic(access_key: str, secret_key: str) -> str:
    """Return its value (RFC 7617, in UTF-8). Raises ValueError for a user name with a colon, which that form cannot carry."""
    if ":" in access_key:
        raise ValueError("HTTP cannot carry a user name with a colon: use a token")
    return "Basic " + base64.b64encode(f"{access_key}:{secret_key}".encode()).decode("ascii")
