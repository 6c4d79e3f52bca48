"""The keys of a cluster, from one file that all its services have and that is outside of every data directory.

A line is `<key id> <Base64 of 32 random bytes>`; blank lines and lines that begin with `#` are skipped. The first key is the current one; the
others are being replaced. HKDF-SHA256 (RFC 5869, without salt) derives two keys from each: one seals the secrets of users, with the other
Gantry's own services prove to each other that they belong to the cluster.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gantry_access.secrets.sealing import KEY_SIZE, SealingKeys
from gantry_chassis.machine.private_files import OTHERS
from gantry_chassis.start_refusal import StartRefused

KEYS_MAX = 8
"""Keys in a file: the current one and those that are being replaced."""
FILE_BYTES_MAX = 64 * 1024
FOR_SEALING, FOR_INNER = b"gantry/sealing", b"gantry/inner"

_KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ClusterKeys:
    """The keys derived from those of one file. Its repr shows key ids only."""

    def __init__(self, keys: dict[str, bytes]) -> None:
        """`keys`: 32 random bytes by key id, the current one first. Raises ValueError for no key, too many, or one of another size."""
        if not 0 < len(keys) <= KEYS_MAX:
            raise ValueError(f"{len(keys)} keys, a cluster has 1 to {KEYS_MAX}")
        for key_id, key in keys.items():
            if len(key) != KEY_SIZE:
                raise ValueError(f"the key {key_id!r} has {len(key)} bytes, not {KEY_SIZE}")
        self._ids = tuple(keys)
        self.sealing: SealingKeys = SealingKeys(
            {key_id: _derived(key, FOR_SEALING) for key_id, key in keys.items()}, self._ids[0]
        )
        """Seal and open the secrets of users."""
        self.inner: tuple[bytes, ...] = tuple(_derived(key, FOR_INNER) for key in keys.values())
        """Secrets that Gantry's own services share, the current one first."""

    def __repr__(self) -> str:
        return f"ClusterKeys({', '.join(self._ids)})"

    @classmethod
    def read(cls, path: str | Path) -> ClusterKeys:
        """Return the keys of a file. Raises StartRefused, which names the file and the line but no key.

        A file that others than its owner can read is refused.
        """
        try:
            with Path(path).open("rb") as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                content = file.read(FILE_BYTES_MAX + 1)
        except OSError as error:
            raise StartRefused(
                f"cannot read the key file {path}: {error.strerror}; set access_key_file"
            ) from error
        if mode & OTHERS:
            raise StartRefused(
                f"others can read the key file {path} (mode {mode:04o}); type: chmod 600 {path}"
            )
        if len(content) > FILE_BYTES_MAX:
            raise StartRefused(f"the key file {path} is larger than {FILE_BYTES_MAX} bytes")
        try:
            return cls(_parsed(content))
        except ValueError as error:
            raise StartRefused(
                f"the key file {path} is not one: {error}"
            ) from None  # its cause may hold a key


def _parsed(content: bytes) -> dict[str, bytes]:
    """Return the keys of a file's content. Raises ValueError, which names a line but none of its content behind the key id."""
    keys: dict[str, bytes] = {}
    for number, line in enumerate(content.decode("ascii", "replace").splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2 or not _KEY_ID.fullmatch(words[0]):
            raise ValueError(f"line {number} is not a key id and a key")
        if words[0] in keys:
            raise ValueError(f"line {number} repeats the key id {words[0]}")
        try:
            keys[words[0]] = base64.b64decode(words[1], validate=True)
        except binascii.Error:
            raise ValueError(f"the key in line {number} is not Base64") from None
    return keys


def _derived(key: bytes, purpose: bytes) -> bytes:
    return HKDF(SHA256(), KEY_SIZE, salt=None, info=purpose).derive(key)
