"""Secrets at rest: secrets of users, encrypted, because signatures need them; passwords of people, as hashes."""

from gantry_access.secrets.errors import (
    MalformedPasswordHash,
    MalformedSealedSecret,
    SealedByUnknownKey,
    SecretError,
    SecretTampered,
)
from gantry_access.secrets.hidden_text import HiddenText
from gantry_access.secrets.passwords import ScryptCost, hash_password, is_password, needs_new_hash
from gantry_access.secrets.sealing import NONCE_SIZE, SealingKeys

__all__ = [
    "NONCE_SIZE",
    "HiddenText",
    "MalformedPasswordHash",
    "MalformedSealedSecret",
    "ScryptCost",
    "SealedByUnknownKey",
    "SealingKeys",
    "SecretError",
    "SecretTampered",
    "hash_password",
    "is_password",
    "needs_new_hash",
]
