"""Users, policies and tokens as the API shows them: without secrets. Pure."""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeVar

from gantry_access.errors import AccessError
from gantry_access.model.actions import Action
from gantry_access.model.networks import SourceNetwork
from gantry_access.model.policies import Decision, PolicyEntry, SubjectPolicies
from gantry_access.model.resources import Resource
from gantry_access.model.users import Subject, User
from gantry_access.tokens.scope import ScopeEntry
from gantry_access.tokens.stored_token import StoredToken
from gateway.http.problems import invalid
from gateway.messages.message_view import rfc3339
from gateway.users.schemas import (
    EntryBody,
    EntryShown,
    PoliciesBody,
    PoliciesShown,
    ScopeBody,
    ScopeShown,
    TokenShown,
    UserShown,
)

T = TypeVar("T")


def user_shown(user: User) -> UserShown:
    """Return a user without its secrets."""
    return UserShown(
        user.name,
        user.type.value,
        user.status.value,
        len(user.secrets),
        None if user.expires_ms is None else rfc3339(user.expires_ms),
    )


def policies_shown(policies: SubjectPolicies) -> PoliciesShown:
    """Return all policies of a subject."""
    return PoliciesShown(
        policies.subject.text,
        [entry_shown(entry) for entry in policies.custom],
        [entry_shown(entry) for entry in policies.default],
    )


def entry_shown(entry: PolicyEntry) -> EntryShown:
    """Return one entry."""
    return EntryShown(
        entry.resource.text,
        entry.actions.names,
        entry.decision.value,
        [network.text for network in entry.networks],
    )


def token_shown(token: StoredToken) -> TokenShown:
    """Return a token without its text and its hash."""
    return TokenShown(
        token.id,
        token.user,
        scope_shown(token.scope),
        rfc3339(token.created_ms),
        rfc3339(token.expires_ms),
    )


def scope_shown(scope: Iterable[ScopeEntry]) -> list[ScopeShown]:
    """Return the scope of a token."""
    return [ScopeShown(one.resource.text, one.actions.names) for one in scope]


def policies_of(name: str, body: PoliciesBody) -> SubjectPolicies:
    """Return the policies of a body. Raise 400 that names the invalid entry."""
    custom = _entries("custom", body.custom)
    default = _entries("default", body.default)
    try:
        return SubjectPolicies(Subject(name), custom, default)
    except AccessError as error:
        raise invalid("custom", str(error)) from error


def scope_of(body: Sequence[ScopeBody]) -> tuple[ScopeEntry, ...]:
    """Return the scope of a body. Raise 400 that names the invalid entry."""
    return tuple(
        ScopeEntry(
            resource_of(one.resource, f"scope[{n}].resource"), actions_of(one.actions, f"scope[{n}].actions")
        )
        for n, one in enumerate(body)
    )


def resource_of(text: str, field: str) -> Resource:
    """Return the resource of a text. Raise 400."""
    try:
        return Resource.parse(text)
    except AccessError as error:
        raise invalid(field, str(error), "Type:name, Type:prefix*, Type:* or *") from error


def actions_of(names: Sequence[str], field: str) -> Action:
    """Return the actions of these names. Raise 400."""
    try:
        return Action.parse_all(names)
    except AccessError as error:
        raise invalid(field, str(error), ", ".join(Action.every().names)) from error


def page_of(found: Sequence[tuple[str, T]], after: str, count_max: int) -> tuple[list[T], str | None]:
    """Return the elements behind the name `after`, at most `count_max`, and the name of the last one if there are more."""
    behind = sorted((pair for pair in found if pair[0] > after), key=lambda pair: pair[0])
    page = behind[:count_max]
    return [one for _name, one in page], page[-1][0] if len(behind) > count_max else None


def _entries(kind: Literal["custom", "default"], entries: Sequence[EntryBody]) -> tuple[PolicyEntry, ...]:
    return tuple(_entry(one, f"{kind}[{n}]") for n, one in enumerate(entries))


def _entry(body: EntryBody, place: str) -> PolicyEntry:
    resource = resource_of(body.resource, f"{place}.resource")
    actions = actions_of(body.actions, f"{place}.actions")
    try:
        networks = tuple(SourceNetwork.parse(text) for text in body.networks)
        return PolicyEntry(resource, actions, Decision(body.decision), networks)
    except AccessError as error:
        raise invalid(f"{place}.networks", str(error)) from error
