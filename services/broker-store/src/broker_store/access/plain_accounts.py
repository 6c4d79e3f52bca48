"""Users with policies as accounts of ACL 1.0 (RocketMQ 4.9), so that its requests can change some fields and keep the others. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gantry_access.errors import IllegalPolicy
from gantry_access.formats.plain_acl import PlainAccount, read_plain_acl
from gantry_access.model.actions import Action
from gantry_access.model.networks import SourceNetwork
from gantry_access.model.policies import Decision, PolicyEntry, SubjectPolicies
from gantry_access.model.resources import Resource, ResourceType
from gantry_access.model.users import User

UNCHANGED = "unchanged"
"""Stands for the secret of an account whose secret a request does not change: the reader needs one, and nobody stores it."""
_TEXTS = {
    Action.PUB: "PUB",
    Action.SUB: "SUB",
    Action.PUB | Action.SUB: "PUB|SUB",
}
_KINDS = (
    (ResourceType.TOPIC, "topicPerms", "defaultTopicPerm"),
    (ResourceType.GROUP, "groupPerms", "defaultGroupPerm"),
)


def changed_account(user: User | None, policies: SubjectPolicies, changes: Mapping[str, Any]) -> PlainAccount:
    """Return an account with changed fields. `changes`: fields of an account as plain_acl.yml names them.

    Raises IllegalPolicy if the fields, or what they leave of the account, are no account of ACL 1.0.
    """
    account = {} if user is None else _account_of(user, policies)
    networks = () if "whiteRemoteAddress" in changes else _networks(policies)
    read = read_plain_acl({"accounts": [{**account, **changes}]})
    if not read.accounts:
        raise IllegalPolicy("; ".join(read.unreadable))
    changed = read.accounts[0]
    return replace(changed, policies=_limited(changed.policies, networks)) if networks else changed


def _account_of(user: User, policies: SubjectPolicies) -> dict[str, Any]:
    account: dict[str, Any] = {
        "accessKey": user.name, "secretKey": UNCHANGED, "admin": "true" if user.is_super else "false",
    }  # fmt: skip
    left = {*policies.custom, *policies.default}
    for kind, listed, default in _KINDS:
        account[listed] = [
            f"{name}={_permission(entries)}"
            for name, entries in _by_name(kind, policies.custom, left).items()
        ]
        usual = [entry for entry in policies.default if entry.resource == Resource.every(kind)]
        left.difference_update(usual)
        if usual:
            account[default] = _permission(usual)
    if left:
        raise _beyond(min(left, key=lambda entry: entry.text))
    return account


def _by_name(
    kind: ResourceType, entries: tuple[PolicyEntry, ...], left: set[PolicyEntry]
) -> dict[str, list[PolicyEntry]]:
    """Return the entries of each whole name of a type, and take them out of `left`."""
    found: dict[str, list[PolicyEntry]] = {}
    for entry in entries:
        prefix = f"{kind.value}:"
        if entry.resource.key.startswith(prefix) and not entry.resource.is_prefix:
            found.setdefault(entry.resource.key.removeprefix(prefix), []).append(entry)
            left.discard(entry)
    return found


def _permission(entries: list[PolicyEntry]) -> str:
    """Return the permission of ACL 1.0 that entries of one resource came from."""
    allowed = [entry for entry in entries if entry.decision is Decision.ALLOW]
    denied = [entry for entry in entries if entry.decision is Decision.DENY]
    if not allowed and len(denied) == 1 and denied[0].actions == Action.ALL and not denied[0].networks:
        return "DENY"
    for entry in denied:  # of what only the default permits
        if entry.networks or entry.actions not in _TEXTS:
            raise _beyond(entry)
    text = _TEXTS.get(allowed[0].actions) if len(allowed) == 1 else None
    if text is None:
        raise _beyond(entries[0])
    return text


def _networks(policies: SubjectPolicies) -> tuple[SourceNetwork, ...]:
    """Return the networks of all that is allowed, which ACL 1.0 keeps once for an account."""
    entries = (*policies.custom, *policies.default)
    found = {entry.networks for entry in entries if entry.decision is Decision.ALLOW}
    if len(found) > 1:
        raise IllegalPolicy(
            f"{policies.subject.text} has policies with different source networks: change them with updateAcl of RocketMQ 5"
        )
    return found.pop() if found else ()


def _limited(policies: SubjectPolicies, networks: tuple[SourceNetwork, ...]) -> SubjectPolicies:
    """Return policies whose Allow entries count from these networks only."""

    def limited(entries: tuple[PolicyEntry, ...]) -> tuple[PolicyEntry, ...]:
        return tuple(
            replace(entry, networks=networks) if entry.decision is Decision.ALLOW else entry
            for entry in entries
        )

    return replace(policies, custom=limited(policies.custom), default=limited(policies.default))


def _beyond(entry: PolicyEntry) -> IllegalPolicy:
    return IllegalPolicy(
        f"ACL 1.0 cannot say {entry.text!r}: change the user's policies with updateAcl of RocketMQ 5"
    )
