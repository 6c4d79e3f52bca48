"""Planted violations of the rules of replication: their names, and how to plant one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True)
class Mutant:
    rule: int
    does: str
    methods: tuple[tuple[type, str, Any], ...]


MUTANTS: dict[str, Mutant] = {}


def mutant(
    rule: int, does: str, *places: tuple[type, str]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as the body of these methods of one mutant; further calls add methods to it."""

    def register(body: Callable[..., Any]) -> Callable[..., Any]:
        name = body.__name__
        old = MUTANTS.get(name)
        new = tuple((owner, attribute, body) for owner, attribute in places)
        MUTANTS[name] = Mutant(rule, does, (*(old.methods if old else ()), *new))
        return body

    return register


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant a mutant, and take it out again."""
    with pytest.MonkeyPatch.context() as patch:
        for owner, attribute, body in MUTANTS[name].methods:
            patch.setattr(owner, attribute, body)
        yield
