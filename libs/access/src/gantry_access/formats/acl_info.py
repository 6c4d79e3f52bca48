"""RocketMQ's AclInfo, the body of 3006, 3007, 3009 and 3010.

Differs from RocketMQ: an unknown action or policy type is refused instead of dropped or taken as Custom, so a policy never becomes
wider or narrower than its text.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import field

from gantry_access.errors import (
    AnyAction,
    IllegalPolicy,
    MalformedNetwork,
    MalformedResource,
    MalformedSubject,
    UnknownAction,
)
from gantry_access.formats.refused_change import RefusedChange, no_permission
from gantry_access.model.actions import Action
from gantry_access.model.networks import SourceNetwork
from gantry_access.model.policies import Decision, PolicyEntry, PolicyType, SubjectPolicies
from gantry_access.model.resources import Resource
from gantry_access.model.users import Subject
from gantry_wire.bodies.fastjson import dumps
from gantry_wire.bodies.json_body import Body, decode_body, encode_body
from gantry_wire.errors import MalformedBody


class EntryInfo(Body, kw_only=True, rename="camel"):
    """One entry. No `sourceIps` means from everywhere."""

    resource: str | None = None
    actions: list[str] = field(default_factory=list[str])
    source_ips: list[str] | None = None
    decision: str | None = None


class PolicyInfo(Body, kw_only=True, rename="camel"):
    """The entries of one policy type; Custom if it has none."""

    policy_type: str | None = None
    entries: list[EntryInfo] = field(default_factory=list[EntryInfo])


class AclInfo(Body, kw_only=True, rename="camel"):
    """All entries of one subject."""

    subject: str | None = None
    policies: list[PolicyInfo] = field(default_factory=list[PolicyInfo])


def read_acl(body: bytes, header_subject: str) -> SubjectPolicies:
    """Return the policies of a create or update request; the body's subject counts before the header's. Raises RefusedChange."""
    try:
        info = decode_body(body, AclInfo)
    except MalformedBody as error:
        raise RefusedChange(error.code, str(error)) from error
    try:
        subject = Subject.parse(info.subject or header_subject)
    except MalformedSubject as error:
        raise no_permission("The subject type is null.") from error
    entries: dict[PolicyType, list[PolicyEntry]] = {kind: [] for kind in PolicyType}
    for policy in info.policies:
        entries[read_policy_type(policy.policy_type)] += [_entry(entry) for entry in policy.entries]
    if not any(entries.values()):
        raise no_permission("The policies is empty.")
    try:
        return SubjectPolicies(subject, tuple(entries[PolicyType.CUSTOM]), tuple(entries[PolicyType.DEFAULT]))
    except IllegalPolicy as error:
        raise no_permission(str(error)) from error


def read_policy_type(text: str | None) -> PolicyType:
    """Return a policy type; Custom if there is none. Raises RefusedChange."""
    if text is None or not text.strip():
        return PolicyType.CUSTOM
    for kind in PolicyType:
        if kind.value.lower() == text.lower():
            return kind
    raise no_permission(f"The policy type {text[:64]!r} is unknown, it is Custom or Default.")


def read_resource(text: str | None) -> Resource:
    """Return a resource. Raises RefusedChange."""
    try:
        return Resource.parse(text or "")
    except MalformedResource as error:
        raise no_permission("The resource is null.") from error


def write_acl(policies: SubjectPolicies) -> bytes:
    """Return the reply body of 3009."""
    return encode_body(_info(policies))


def write_acls(found: Iterable[SubjectPolicies]) -> bytes:
    """Return the reply body of 3010."""
    return dumps([_info(policies) for policies in found])


def _entry(info: EntryInfo) -> PolicyEntry:
    resource = read_resource(
        info.resource
    )  # in RocketMQ's order: an entry with two faults gets the same text
    actions = _actions(info.actions)
    networks = _networks(info.source_ips or [])
    try:
        return PolicyEntry(resource, actions, _decision(info.decision), networks)
    except IllegalPolicy as error:
        raise no_permission(str(error)) from error


def _actions(names: list[str]) -> Action:
    try:
        actions = Action.parse_all(names)
    except AnyAction as error:
        raise no_permission("The actions can not be Any.") from error
    except UnknownAction as error:
        raise no_permission(str(error)) from error
    if not actions:
        raise no_permission("The actions is empty.")
    return actions


def _networks(texts: list[str]) -> tuple[SourceNetwork, ...]:
    if not all(text.strip() for text in texts):
        raise no_permission("The source ip is empty.")
    try:
        return tuple(SourceNetwork.parse(text) for text in texts)
    except MalformedNetwork as error:
        raise no_permission("The source ip is invalid.") from error


def _decision(text: str | None) -> Decision:
    for decision in Decision:
        if text is not None and decision.value.lower() == text.lower():
            return decision
    raise no_permission("The decision is null or illegal.")


def _info(policies: SubjectPolicies) -> AclInfo:
    return AclInfo(
        subject=policies.subject.text,
        policies=[
            PolicyInfo(policy_type=kind.value, entries=[_entry_info(entry) for entry in policies.of(kind)])
            for kind in PolicyType
            if policies.of(kind)
        ],
    )


def _entry_info(entry: PolicyEntry) -> EntryInfo:
    return EntryInfo(
        resource=entry.resource.text,
        actions=entry.actions.names,
        source_ips=[network.text for network in entry.networks] or None,
        decision=entry.decision.value,
    )
