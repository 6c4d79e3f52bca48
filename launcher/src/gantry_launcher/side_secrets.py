"""The secrets of NATS and Valkey: made at each start, kept in files that only their user may read.

Every local user reaches their ports. No secret is an argument or in an environment, where `ps` or another process would show it.
"""

import os
import secrets
from pathlib import Path

from gantry_launcher.errors import Refused
from gantry_launcher.layout import DataDir

SECRET_BYTES = 32


def make_side_secrets(data: DataDir) -> None:
    """Write new secrets, and the configuration of the two servers that names them. Raises Refused."""
    nats, redis = secrets.token_urlsafe(SECRET_BYTES), secrets.token_urlsafe(SECRET_BYTES)
    texts = {
        data.nats_token: nats,
        data.nats_config: f'authorization {{ token: "{nats}" }}\n',
        data.redis_password: redis,
        data.redis_config: f"requirepass {redis}\n",
    }
    for path, text in texts.items():
        try:
            _write_private(path, text)
        except OSError as error:
            raise Refused(f"cannot write {path}: {error.strerror or error}") from error


def _write_private(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # a file that was there may be open for others
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
