"""A fault that can be planted for a while: an attribute of the product, often a method, that is another one than it should be."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

Wrap = Callable[[Any], Any]
"""Makes the faulty attribute from the right one."""


@contextmanager
def _replaced(owner: object, name: str, wrap: Wrap) -> Generator[None]:
    right = getattr(owner, name)
    setattr(owner, name, wrap(right))
    try:
        yield
    finally:
        setattr(owner, name, right)


@dataclass(frozen=True, slots=True)
class Planted:
    """One fault: an attribute of a class or a module, often a method, that is another one than it should be."""

    name: str
    owner: object
    method: str
    wrap: Wrap

    def planted(self) -> AbstractContextManager[None]:
        """Plant it for a while, in this process."""
        return _replaced(self.owner, self.method, self.wrap)


@dataclass(frozen=True, slots=True)
class Together:
    """Several changes that are one fault."""

    name: str
    parts: tuple[Planted, ...]

    @contextmanager
    def planted(self) -> Generator[None]:
        """Plant all of them for a while."""
        with ExitStack() as stack:
            for part in self.parts:
                stack.enter_context(part.planted())
            yield
