"""plain_acl.yml of ACL 1.0 (RocketMQ 4.9), read as users and policies. The caller parses YAML, every value as text, and seals the secrets.

| 4.9 | here |
|---|---|
| `admin: true` | a Super user |
| `topicPerms`, `groupPerms` | Custom entries; `DENY` is Deny All |
| `defaultTopicPerm`, `defaultGroupPerm` | Default entries on `Topic:*` and `Group:*`; none if absent, as nothing is allowed without an entry |
| `whiteRemoteAddress` | the source networks of the account's Allow entries |

In 4.9 the permission of a name replaces the default one, while Default entries also count for actions that no Custom entry names. So an
action that only the default permits is denied on that name.

In 4.9 a white address opens everything to an account, without a signature. Nothing here does. As source networks the addresses keep
what administrators usually mean by them, where the account may come from; a note of each account says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from gantry_access.errors import AccessError, IllegalPolicy, IllegalUser
from gantry_access.formats.white_addresses import parse_white_address
from gantry_access.model.actions import Action
from gantry_access.model.networks import SourceNetwork
from gantry_access.model.policies import Decision, PolicyEntry, SubjectPolicies
from gantry_access.model.resources import Resource, ResourceType
from gantry_access.model.users import User, UserType
from gantry_access.secrets.hidden_text import HiddenText

BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False, "": False}
"""What YAML 1.1 takes for a boolean, if the file was parsed with every value as text."""

PERMISSIONS = {
    "PUB": (Action.PUB, Decision.ALLOW),
    "SUB": (Action.SUB, Decision.ALLOW),
    "PUB|SUB": (Action.PUB | Action.SUB, Decision.ALLOW),
    "SUB|PUB": (Action.PUB | Action.SUB, Decision.ALLOW),
    "DENY": (Action.ALL, Decision.DENY),
}


@dataclass(slots=True, frozen=True)
class PlainAccount:
    """One account that was read."""

    user: User
    """Without secrets."""
    secret: HiddenText
    """The secret in clear, to be sealed."""
    policies: SubjectPolicies
    """Empty for a Super user, who skips policies."""


@dataclass(slots=True, frozen=True)
class PlainAcl:
    """What a file contains."""

    accounts: tuple[PlainAccount, ...]
    notes: tuple[str, ...]
    """What an administrator must know of accounts that were read, and of global addresses."""
    unreadable: tuple[str, ...]
    """One message per account that was not read."""


def read_plain_acl(content: object) -> PlainAcl:
    """Return the accounts of a parsed plain_acl.yml. An account with any fault is left out whole, with one message."""
    accounts: list[PlainAccount] = []
    names: set[str] = set()
    notes: list[str] = []
    unreadable: list[str] = []
    if not isinstance(content, Mapping):
        return PlainAcl((), (), ("the file is not a mapping with accounts",))
    whole = cast("Mapping[str, Any]", content)
    if addresses := whole.get("globalWhiteRemoteAddresses"):
        notes.append(
            f"globalWhiteRemoteAddresses {_shown(addresses)} open nothing any more: these clients need a user and a signature"
        )
    listed: object = whole.get("accounts") or []
    if not isinstance(listed, list):
        return PlainAcl((), tuple(notes), ("accounts is not a list",))
    for place, found in enumerate(cast("list[object]", listed), 1):
        try:
            account = _account(found)
            if account.user.name in names:
                raise IllegalUser("an earlier account has the same accessKey")
        except AccessError as error:
            unreadable.append(f"account {place}{_named(found)} was not read: {error}")
            continue
        accounts.append(account)
        names.add(account.user.name)
        notes += _address_notes(account, cast("Mapping[str, Any]", found))
    return PlainAcl(tuple(accounts), tuple(notes), tuple(unreadable))


def _account(found: object) -> PlainAccount:
    if not isinstance(found, Mapping):
        raise IllegalUser("it is not a mapping")
    account = cast("Mapping[str, Any]", found)
    name, secret = _text(account, "accessKey"), _text(account, "secretKey")
    if not secret:
        raise IllegalUser("it has no secretKey")
    is_admin = _is_admin(account)
    user = User(name, UserType.SUPER if is_admin else UserType.NORMAL)
    networks = _networks(account)
    topics, default_topic = _entries(account, "topicPerms", "defaultTopicPerm", ResourceType.TOPIC)
    groups, default_group = _entries(account, "groupPerms", "defaultGroupPerm", ResourceType.GROUP)
    policies = _limited(
        SubjectPolicies(user.subject, topics + groups, default_topic + default_group), networks
    )
    return PlainAccount(user, HiddenText(secret), SubjectPolicies(user.subject) if is_admin else policies)


def _entries(
    account: Mapping[str, Any], listed: str, default: str, kind: ResourceType
) -> tuple[tuple[PolicyEntry, ...], tuple[PolicyEntry, ...]]:
    """Return the Custom and Default entries of topics or groups."""
    usual = _text(account, default)
    defaults = (PolicyEntry(Resource.every(kind), *_permission(default, usual)),) if usual else ()
    allowed = Action(0)
    for entry in defaults:
        allowed = entry.actions if entry.decision is Decision.ALLOW else allowed
    custom: list[PolicyEntry] = []
    for resource, (actions, decision) in _listed(account, listed, kind).items():
        custom.append(PolicyEntry(resource, actions, decision))
        only_by_default = allowed & ~actions
        if decision is Decision.ALLOW and only_by_default:
            custom.append(PolicyEntry(resource, only_by_default, Decision.DENY))
    return tuple(custom), defaults


def _listed(
    account: Mapping[str, Any], key: str, kind: ResourceType
) -> dict[Resource, tuple[Action, Decision]]:
    """Return the permission of each name; the last one of a name, as in 4.9. Refuses two names of one group (`g`, `%RETRY%g`)."""
    listed: object = account.get(key) or []
    if not isinstance(listed, list):
        raise IllegalPolicy(f"{key} is not a list of name=PERMISSION")
    make = Resource.topic if kind is ResourceType.TOPIC else Resource.group
    found: dict[Resource, tuple[Action, Decision]] = {}
    names: dict[Resource, str] = {}
    for item in cast("list[object]", listed):
        name, equals, permission = item.partition("=") if isinstance(item, str) else ("", "", "")
        if not equals:
            raise IllegalPolicy(f"{key} contains {_shown(item)}, not name=PERMISSION")
        resource = make(name.strip())
        if names.setdefault(resource, name.strip()) != name.strip():
            raise IllegalPolicy(f"{key} has two names of {resource.text}")
        found[resource] = _permission(key, permission)
    return found


def _permission(key: str, text: str) -> tuple[Action, Decision]:
    found = PERMISSIONS.get(text.strip())
    if found is None:
        raise IllegalPolicy(
            f"{key} has the permission {text.strip()[:64]!r}, known are {', '.join(PERMISSIONS)}"
        )
    return found


def _networks(account: Mapping[str, Any]) -> tuple[SourceNetwork, ...]:
    """Return the account's white addresses; none if it has none, or if they are everywhere."""
    text = _text(account, "whiteRemoteAddress")
    return (parse_white_address(text) or ()) if text else ()


def _limited(policies: SubjectPolicies, networks: Sequence[SourceNetwork]) -> SubjectPolicies:
    """Limit what is allowed to some networks. What is denied stays denied from everywhere."""
    custom, default = (
        tuple(
            replace(entry, networks=tuple(networks)) if entry.decision is Decision.ALLOW else entry
            for entry in entries
        )
        for entries in (policies.custom, policies.default)
    )
    return replace(policies, custom=custom, default=default)


def _address_notes(account: PlainAccount, found: Mapping[str, Any]) -> list[str]:
    text = _text(found, "whiteRemoteAddress")
    if not text:
        return []
    now = f"user {account.user.name!r}: its white addresses {text} no longer replace signature and permission"
    if account.user.is_super:
        return [f"{now}; a Super user is not limited to addresses"]
    if not _networks(found):
        return [f"{now}; its permissions count from everywhere"]
    return [f"{now}; its permissions count only from there"]


def _is_admin(account: Mapping[str, Any]) -> bool:
    admin = account.get("admin")
    if isinstance(admin, bool) or admin is None:
        return bool(admin)
    found = BOOLEANS.get(_text(account, "admin").lower())
    if found is None:
        raise IllegalUser(f"admin is {str(admin)[:64]!r}, not true or false")
    return found


def _text(account: Mapping[str, Any], key: str) -> str:
    """Return a value as text; empty if absent. Numbers are refused: YAML reads `0123` and `1_0` as other ones than the text."""
    value = account.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise IllegalUser(f"{key} is not text; parse the file with every value as text")
    return value.strip()


def _named(found: object) -> str:
    name = cast("Mapping[str, Any]", found).get("accessKey") if isinstance(found, Mapping) else None
    return f" ({_shown(name)})" if name else ""


def _shown(value: object) -> str:
    """Return a value for a message. Only texts are shown: aliases of YAML make a short file a structure without end."""
    if isinstance(value, str):
        return repr(value[:64])
    if isinstance(value, list):
        shown = (_shown(one) for one in cast("list[object]", value)[:16] if not isinstance(one, list))
        return f"[{', '.join(shown)}]"
    return f"a {type(value).__name__}"
