"""What a server asks of the budget of its process: a Protocol, because the process makes it, and only servers have one."""

from collections.abc import Callable
from typing import Protocol


class Account(Protocol):
    """What is held for one connection, one way."""

    def hold(self, size: int, /) -> None:
        """Say how many bytes are held now. Over a limit the oldest are cut, this connection perhaps."""
        ...

    def close(self) -> None:
        """Hold nothing any more."""
        ...


class Budget(Protocol):
    """Bytes that a process holds for those that are connected to it, and the descriptors they may have."""

    def account(self, address: str, what: str, cut: Callable[[str], None], /) -> Account:
        """Open the account of a connection from `address`; `cut(words)` has to close it and to free what is held."""
        ...

    def has_descriptor(self, number: int, /) -> bool:
        """Whether a connection may have the descriptor of this number."""
        ...

    def descriptor_refusal(self) -> str:
        """Say why a connection is refused that may not have its descriptor."""
        ...

    def refused(self, reason: str, peer: str, words: str, /) -> None:
        """Count and tell that a connection was refused or closed; `reason` is one word."""
        ...


class _NoAccount:
    def hold(self, size: int, /) -> None:
        pass

    def close(self) -> None:
        pass


class NoBudget:
    """For servers without one: nothing is counted, told or refused."""

    def account(self, _address: str, _what: str, _cut: Callable[[str], None], /) -> Account:
        """Return an account that counts nothing."""
        return _NO_ACCOUNT

    def has_descriptor(self, _number: int, /) -> bool:
        """Let everybody in."""
        return True

    def descriptor_refusal(self) -> str:
        """Say nothing: nobody is refused."""
        return ""

    def refused(self, _reason: str, _peer: str, _words: str, /) -> None:
        """Tell nobody."""


_NO_ACCOUNT = _NoAccount()
