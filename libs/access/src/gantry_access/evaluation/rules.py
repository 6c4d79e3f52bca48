"""The entries of one subject, indexed by what they cover. Finds those about a resource without reading the others.

The order in which matching rules count is RocketMQ 5.5.0's: entries of a type before `*`, the literal before prefixes, longer prefixes
before shorter ones, `Type:*` last; of those on the same resource, Deny first. As `*` and `Type:*` are prefixes of texts (of `""` and of
`Type:`), that is one rule: the literal, then each prefix from the longest to the shortest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gantry_access.model.needs import Need
from gantry_access.model.networks import SourceAddress, SourceNetwork
from gantry_access.model.policies import Decision, PolicyEntry, PolicyType, SubjectPolicies
from gantry_access.model.resources import Resource


class Rule(NamedTuple):
    """A policy entry, prepared for comparison."""

    permitted: int
    """Bits of the actions that the entry is about."""
    networks: tuple[SourceNetwork, ...]
    allows: bool
    type: PolicyType
    entry: PolicyEntry

    def is_about(self, need: Need) -> bool:
        """Whether the entry names one of the needed actions."""
        return bool(self.permitted & int(need.actions))

    def is_from(self, source: SourceAddress) -> bool:
        """Whether the entry counts for requests from this address."""
        if not self.networks:
            return True
        for network in self.networks:  # noqa: SIM110 - a generator costs more than the comparison
            if network.contains(source):
                return True
        return False

    @property
    def text(self) -> str:
        """The rule in words."""
        return f"{self.type.value}: {self.entry.text}"


class RuleIndex:
    """The rules of one policy type by the text that they cover."""

    __slots__ = ("_denials", "_literals", "_prefix_lengths", "_prefixes")

    def __init__(self, kind: PolicyType, entries: Iterable[PolicyEntry]) -> None:
        self._literals: dict[str, tuple[Rule, ...]] = {}
        self._prefixes: dict[str, tuple[Rule, ...]] = {}
        for entry in sorted(
            entries, key=_denies_first
        ):  # stable: within a decision the order of the policies
            place = self._prefixes if entry.resource.is_prefix else self._literals
            rule = Rule(
                entry.actions.permitted, entry.networks, entry.decision is Decision.ALLOW, kind, entry
            )
            place[entry.resource.key] = (*place.get(entry.resource.key, ()), rule)
        self._denials = tuple(
            rule
            for place in (self._literals, self._prefixes)
            for rules in place.values()
            for rule in rules
            if not rule.allows
        )
        self._prefix_lengths = tuple(sorted({len(prefix) for prefix in self._prefixes}, reverse=True))

    def covering(self, resource: Resource) -> tuple[Rule, ...]:
        """Return the rules about a resource, first the one that counts first."""
        key, is_prefix = resource
        found = () if is_prefix else self._literals.get(key, ())
        size = len(key)
        for length in self._prefix_lengths:
            if length <= size:
                found += self._prefixes.get(key[:length], ())
        return found

    def denied_within(self, need: Need, source: SourceAddress) -> Rule | None:
        """Return a rule that denies a part of a need for several resources; None if there is none. Reads all Deny rules."""
        for rule in self._denials:
            if need.resource.covers(rule.entry.resource) and rule.is_about(need) and rule.is_from(source):
                return rule
        return None


class SubjectRules:
    """All rules of one subject."""

    __slots__ = ("_indexes",)

    def __init__(self, policies: SubjectPolicies) -> None:
        self._indexes = tuple(RuleIndex(kind, policies.of(kind)) for kind in PolicyType if policies.of(kind))

    def covering(self, resource: Resource) -> Iterator[Rule]:
        """Yield the rules about a resource, first the one that counts first: Custom before Default."""
        for index in self._indexes:
            yield from index.covering(resource)

    def deciding(self, need: Need, source: SourceAddress) -> Rule | None:
        """Return the rule that decides about a need; None if no rule matches.

        A need for several resources is denied if a part of them is: by a rule of the type that allows the rest, or of an earlier type.
        """
        wanted = int(need.actions)
        denied: Rule | None = None
        for index in self._indexes:
            if need.resource.is_prefix:
                denied = denied or index.denied_within(need, source)
            for rule in index.covering(need.resource):
                if rule.permitted & wanted and rule.is_from(source):
                    return (denied or rule) if rule.allows else rule
        return None


def _denies_first(entry: PolicyEntry) -> bool:
    return entry.decision is Decision.ALLOW
