"""Explains a decision to an administrator: the rule that decides, those that matched and lost, those that did not match and why."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from gantry_access.evaluation.rules import Rule
from gantry_access.evaluation.state import AccessState, Account
from gantry_access.evaluation.verdicts import Reason, Verdict
from gantry_access.model.needs import Need
from gantry_access.model.networks import SourceAddress
from gantry_access.model.policies import PolicyType

NOWHERE = SourceAddress(0, 0)
"""The address of a question without one. No network has it."""

WITHOUT_POLICIES = {
    Reason.UNKNOWN_USER: "there is no user of this name",
    Reason.USER_DISABLED: "the user is disabled",
    Reason.USER_EXPIRED: "the user has expired",
    Reason.SUPER_USER: "a Super user skips all policies",
    Reason.INNER_USER: "Gantry's own services skip all policies",
}


class Part(Enum):
    """What a rule has to do with a decision."""

    DECIDES = "decides"
    NO_MATCH = "no match"
    LOSES = "loses"


class RuleExplained(NamedTuple):
    """One rule that covers the resource, and why it decides or does not."""

    part: Part
    rule: Rule
    why: str = ""


class Explanation(NamedTuple):
    """A decision with the rules around it, the deciding one first."""

    verdict: Verdict
    rules: tuple[RuleExplained, ...]
    text: str
    """Some lines for people."""


def explain(state: AccessState, name: str, need: Need, source: SourceAddress | None, now_ms: int) -> str:
    """Return some lines about whether a user may do one thing from an address at a wall time, and why.

    Without an address, rules that are limited to networks do not match, and the text says so.
    """
    return explanation_of(state, name, need, source, now_ms).text


def explanation_of(
    state: AccessState, name: str, need: Need, source: SourceAddress | None, now_ms: int
) -> Explanation:
    """Return what `explain` says, with its parts."""
    verdict = state.decide(name, [need], source or NOWHERE, now_ms)
    actions = " or ".join(need.actions.names)
    place = f" from {source.text}" if source else ""
    outcome = "allowed" if verdict.is_allowed else "refused"
    question = f"User:{name} {actions} on {need.resource.text}{place}: {outcome}"
    account = state.find(name)
    if account is None or verdict.reason in WITHOUT_POLICIES:
        return Explanation(verdict, (), f"{question}, {WITHOUT_POLICIES[verdict.reason]}\n")
    rules = tuple(_rules(account, need, source, verdict))
    lines = [question]
    if verdict.deciding is None:
        lines.append("  decides    nothing matches, so it is refused")
    for part, rule, why in rules:
        lines.append(f"  {part.value:<10} {rule.text}{f' ({why})' if why else ''}")
    return Explanation(verdict, rules, "\n".join(lines) + "\n")


def _rules(
    account: Account, need: Need, source: SourceAddress | None, verdict: Verdict
) -> Iterator[RuleExplained]:
    decides = verdict.deciding
    if decides is not None:
        yield RuleExplained(Part.DECIDES, decides)
    for rule in account.rules.covering(need.resource):
        if rule is decides:
            continue
        if not rule.is_about(need):
            yield RuleExplained(Part.NO_MATCH, rule, "another action")
        elif not rule.is_from(source or NOWHERE):
            yield RuleExplained(Part.NO_MATCH, rule, "another address" if source else "no address was given")
        else:
            assert decides is not None
            yield RuleExplained(Part.LOSES, rule, _why(rule, decides, need))


def _why(loser: Rule, winner: Rule, need: Need) -> str:
    """Return why a rule that matches does not decide."""
    if loser.type is not winner.type:
        return f"{PolicyType.DEFAULT.value} entries count only if no {PolicyType.CUSTOM.value} entry matches"
    if loser.entry.resource != winner.entry.resource:
        is_part = not winner.entry.resource.covers(need.resource)
        return f"{winner.entry.resource.text} is {'a part of what is needed' if is_part else 'more specific'}"
    if loser.allows != winner.allows:
        return "Deny wins over Allow on the same resource"
    return "says the same"
