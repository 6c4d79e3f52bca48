"""The decision from the words of RocketMQ's rules, entry by entry. Slow, and shares no code with the evaluation but the values.

1. For each need: the Custom entries that match resource, action and address; if there is none, the Default ones; none: refused.
2. Of these the first in this order decides: with a type before `*`; the whole name, then the longer prefix, then `Type:*`; Deny.
3. A need for several resources is refused if an entry that denies a part of them matches action and address.
4. All needs must be allowed.
"""

import ipaddress


def decide(user, policies, needs, address, now_ms):
    """Return (reason, entries that may have decided the refused need or the last one)."""
    before = before_policies(user, needs, now_ms)
    if before:
        return before, []
    first = []
    for resource, actions in needs:
        matching = [entry for entry in policies.custom if matches(entry, resource, actions, address)]
        if not matching:
            matching = [entry for entry in policies.default if matches(entry, resource, actions, address)]
        if not matching:
            return "no_match", []
        best = min(map(rank, matching))
        first = [entry for entry in matching if rank(entry) == best]
        if first[0].decision.value == "Deny":
            return "denied", first
        parts = [
            entry
            for entry in (*policies.custom, *(policies.default if first[0] in policies.default else ()))
            if resource.text.endswith("*") and covers(resource.text, entry.resource.text)
            if entry.decision.value == "Deny" and is_about(entry, actions, address)
        ]
        if parts:
            return "denied", parts
    return "allowed", first


def before_policies(user, needs, now_ms):
    """Return the first of these reasons that applies; None if policies decide."""
    reasons = {
        "unknown_user": lambda: user is None,
        "user_disabled": lambda: user.status.value == "disable",
        "user_expired": lambda: user.expires_ms is not None and user.expires_ms <= now_ms,
        "no_needs": lambda: not needs,
        "super_user": lambda: user.type.value == "Super",
        "inner_user": lambda: user.type.value == "Inner",
    }
    return next((reason for reason, applies in reasons.items() if applies()), None)


def matches(entry, resource, actions, address):
    return covers(entry.resource.text, resource.text) and is_about(entry, actions, address)


def is_about(entry, actions, address):
    wanted = set(actions.names)
    named = set(entry.actions.names)
    if "All" not in named and not wanted & named:
        return False
    networks = [ipaddress.ip_network(network.text) for network in entry.networks]
    return not networks or any(plain(address) in network for network in networks)


def covers(pattern, wanted):
    """Whether the text of an entry's resource covers the text of a needed one."""
    if pattern == "*":
        return True
    pattern_type, _, pattern_name = pattern.partition(":")
    wanted_type, _, wanted_name = wanted.partition(":")
    if pattern_type != wanted_type:
        return False
    if pattern_name == "*":
        return True
    if pattern_name.endswith("*"):
        return wanted_name.removesuffix("*").startswith(pattern_name[:-1])
    return pattern_name == wanted_name


def rank(entry):
    """The place of an entry: the lowest decides."""
    text = entry.resource.text
    kind, _, name = text.partition(":")
    is_any_type = kind == "*"
    form = 0 if not text.endswith("*") else (2 if name == "*" or is_any_type else 1)
    return (is_any_type, form, -len(name), entry.decision.value != "Deny")


def plain(address):
    found = ipaddress.ip_address(address)
    return getattr(found, "ipv4_mapped", None) or found
