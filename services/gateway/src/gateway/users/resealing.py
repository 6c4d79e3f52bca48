"""Seals secrets again with the cluster's current key, so that an old key can leave the key file."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from gantry_access.model.users import User
from gantry_access.secrets.errors import SecretError
from gantry_access.secrets.sealing import NONCE_SIZE, SealingKeys


class Resealing(NamedTuple):
    """What a pass over all users finds."""

    changed: list[tuple[User, User]]
    """Users with a secret that an old key sealed: before, and with all secrets sealed by the current key."""
    unopened: dict[str, str]
    """Why a secret does not open, by user: its key is no longer in the key file, or its record was changed."""


def reseal_all(users: Iterable[User], keys: SealingKeys, random_bytes: Callable[[int], bytes]) -> Resealing:
    """Seal every secret again that the current key did not seal. A user with a secret that does not open stays as it is."""
    found = Resealing([], {})
    for user in users:
        try:
            if all(keys.is_current(sealed) for sealed in user.secrets):
                continue
            after = replace(
                user, secrets=tuple(_resealed(user.name, one, keys, random_bytes) for one in user.secrets)
            )
        except SecretError as error:
            found.unopened[user.name] = str(error)
        else:
            found.changed.append((user, after))
    return found


def _resealed(user: str, sealed: str, keys: SealingKeys, random_bytes: Callable[[int], bytes]) -> str:
    if keys.is_current(sealed):
        return sealed
    return keys.seal(user, keys.open(user, sealed), random_bytes(NONCE_SIZE))
