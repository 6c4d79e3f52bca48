"""Subjects of NATS: which are valid, and which subscriptions get a message."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

ANY, REST = "*", ">"

C = TypeVar("C")


@dataclass(slots=True)
class NatsSubscription:
    """One subscription of a client."""

    number: str
    """The client's id for it."""
    subject: str
    group: str = ""
    """Queue group: one of its members gets each message."""
    most: int = 0
    """It ends after this many messages; 0: never."""
    delivered: int = 0


def is_valid(subject: str, *, wildcards: bool) -> bool:
    """Whether a subject has no empty token, and wildcards only where they may be."""
    tokens = subject.split(".")
    has_wildcards = ANY in tokens or REST in tokens
    return all(tokens) and REST not in tokens[:-1] and (wildcards or not has_wildcards)


def matches(pattern: str, subject: str) -> bool:
    """Whether a subscription to `pattern` gets messages of `subject`."""
    wanted, tokens = pattern.split("."), subject.split(".")
    if wanted[-1] == REST:
        wanted.pop()
        if len(tokens) <= len(wanted):
            return False
        del tokens[len(wanted) :]
    return len(wanted) == len(tokens) and all(
        one in (ANY, token) for one, token in zip(wanted, tokens, strict=True)
    )


def subscribed(
    candidates: Sequence[tuple[C, NatsSubscription]], subject: str, rng: random.Random
) -> Iterator[tuple[C, NatsSubscription]]:
    """Yield those that get a message, in the order given; of a queue group a drawn one."""
    groups: dict[tuple[str, str], list[tuple[C, NatsSubscription]]] = {}
    for client, subscription in candidates:
        if not matches(subscription.subject, subject):
            continue
        if subscription.group:
            groups.setdefault((subscription.group, subscription.subject), []).append((client, subscription))
        else:
            yield client, subscription
    for members in groups.values():
        yield rng.choice(members)
