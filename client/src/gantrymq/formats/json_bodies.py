"""Message bodies in the gateway's JSON. Pure."""

import base64

TEXT_BYTES_MAX = 2 * 1024 * 1024
"""A byte of text takes up to six in JSON, and a request to the gateway may have 16 MiB; in base64 three bytes take four."""


def body_fields(data: bytes) -> dict[str, str]:
    """Return a body as text if it is UTF-8 and certainly fits, else in base64."""
    if len(data) <= TEXT_BYTES_MAX:
        try:
            return {"body": data.decode()}
        except UnicodeDecodeError:
            pass
    return {"bodyBase64": base64.b64encode(data).decode("ascii")}
