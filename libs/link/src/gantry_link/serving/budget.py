"""The Protocol of the byte budget that servers use. The process provides the implementation."""

from collections.abc import Callable
from typing import Protocol


class Account(Protocol):
    """Bytes held for one direction of a connection."""

    def hold(self, size: int, /) -> None:
        """Set how many bytes are held now. Over a limit, the budget closes the connections that have held bytes longest."""
        ...

    def close(self) -> None:
        """Release all bytes."""
        ...


class Budget(Protocol):
    """Limits the bytes that a process holds for its peers, and the descriptors that they may use."""

    def account(self, address: str, what: str, cut: Callable[[str], None], /) -> Account:
        """Open an account for a connection from `address`. `cut(message)` must close the connection and free its bytes."""
        ...

    def has_descriptor(self, number: int, /) -> bool:
        """Whether a connection may use the descriptor with this number."""
        ...

    def descriptor_refusal(self) -> str:
        """Return the message for a connection that may not use its descriptor."""
        ...

    def refused(self, reason: str, peer: str, message: str, /) -> None:
        """Count and log that a connection was refused or closed. `reason` is one word."""
        ...


class _NoAccount:
    def hold(self, size: int, /) -> None:
        pass

    def close(self) -> None:
        pass


class NoBudget:
    """A budget without limits: counts, logs and refuses nothing."""

    def account(self, _address: str, _what: str, _cut: Callable[[str], None], /) -> Account:
        """Return an account that counts nothing."""
        return _NO_ACCOUNT

    def has_descriptor(self, _number: int, /) -> bool:
        """Allow every descriptor."""
        return True

    def descriptor_refusal(self) -> str:
        """Return nothing: no connection is refused."""
        return ""

    def refused(self, _reason: str, _peer: str, _message: str, /) -> None:
        """Do nothing."""


_NO_ACCOUNT = _NoAccount()
