"""Errors of stored secrets. None of them contains a secret, a key or a hash."""


class SecretError(Exception):
    """A stored secret cannot be used."""


class MalformedSealedSecret(SecretError):
    """A text is not a sealed secret. The record is damaged, or a newer version wrote it."""


class SealedByUnknownKey(SecretError):
    """The key that sealed a secret is not among the given ones. Give it again, or set a new secret for the user."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"no key {key_id!r} to open a secret")
        self.key_id = key_id


class SecretTampered(SecretError):
    """A sealed secret does not open for this user: it was changed, moved from another user, or its key is another one."""


class MalformedPasswordHash(SecretError):
    """A text is not a password hash, or its cost is beyond the limits."""
