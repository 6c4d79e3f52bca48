"""Consumer groups of this broker: their permissions, and how a consumer may create one. Pure: never saves."""

from collections.abc import Callable

import msgspec

from broker_store.config.config_files import DataVersionCounter
from broker_store.retrying.policy import RETRY_ATTRIBUTE, parse_policy
from gantry_wire.bodies.cluster import SubscriptionGroupConfig, SubscriptionGroupWrapper
from gantry_wire.errors import IllegalName, MalformedBody
from gantry_wire.names import (
    GANTRY_SYSTEM_PREFIX,
    GATEWAY_GROUP,
    PRESET_GROUPS,
    SYSTEM_GROUP_PREFIX,
    check_group,
)

PERM_READ = 4
"""Bit of `forbidden` that forbids reading (RocketMQ's)."""
GATEWAY = SubscriptionGroupConfig(group_name=GATEWAY_GROUP, notify_consumer_ids_changed_enable=False)
"""Reads for HTTP clients. Every store has it; it is in no list and no file."""


class GroupTable:
    """All subscription groups by name. Every change raises the data version and is reported."""

    def __init__(
        self,
        version: DataVersionCounter,
        known: SubscriptionGroupWrapper,
        *,
        auto_create: bool,
        on_change: Callable[[str], None],
    ) -> None:
        """`on_change` is called with the group's name after each change."""
        self.version = version
        self.auto_create = auto_create
        """Whether using a group's name creates it."""
        self._on_change = on_change
        self.forbidden = known.forbidden_table
        """Topics a group may not read: group → topic → bits."""
        self._fill(known)

    def set_auto_create(self, *, enable: bool) -> None:
        """Set whether using a group's name creates it (autoCreateSubscriptionGroup)."""
        self.auto_create = enable

    def find(self, name: str) -> SubscriptionGroupConfig | None:
        """Return an existing group."""
        return self._groups.get(name) or (GATEWAY if name == GATEWAY_GROUP else None)

    def find_or_create(self, name: str) -> SubscriptionGroupConfig | None:
        """Return the group; create it with defaults where allowed. None for an unknown group otherwise."""
        group = self._groups.get(name)
        if group is not None:
            return group
        if name == GATEWAY_GROUP:
            return GATEWAY
        if not (self.auto_create or name.startswith(SYSTEM_GROUP_PREFIX)):
            return None
        try:
            check_group_to_put(name)
        except IllegalName:
            return None
        group = SubscriptionGroupConfig(group_name=name)
        self.put(group)
        return group

    def names(self) -> list[str]:
        """Return the names of all groups that clients may see."""
        return list(self._groups)

    def put(self, group: SubscriptionGroupConfig) -> None:
        """Create or replace a group.

        Its attributes are changes to the existing ones. Raises IllegalName, IllegalPolicy.
        """
        check_group_to_put(group.group_name)
        present = self._groups.get(group.group_name)
        group.attributes = change_group_attributes(present.attributes if present else {}, group.attributes)
        self._groups[group.group_name] = group
        self._changed(group.group_name)

    def set_consume_enable(self, name: str, enable: bool) -> None:
        """Pause or resume a group."""
        group = self._groups.get(name)
        if group is not None and group.consume_enable is not enable:
            group.consume_enable = enable
            self._changed(name)

    def may_read(self, name: str, topic: str) -> bool:
        """Whether a group may read a topic."""
        return not self.forbidden.get(name, {}).get(topic, 0) & PERM_READ

    def set_readable(self, name: str, topic: str, *, readable: bool) -> None:
        """Forbid or allow a group to read a topic."""
        bits = self.forbidden.get(name, {}).get(topic, 0)
        changed = bits & ~PERM_READ if readable else bits | PERM_READ
        if changed == bits:
            return
        of_group = self.forbidden.setdefault(name, {})
        of_group[topic] = changed
        if not changed:
            del of_group[topic]
        if not of_group:
            del self.forbidden[name]
        self._changed(name)

    def delete(self, name: str) -> bool:
        """Delete a group. False when it does not exist."""
        if self._groups.pop(name, None) is None:
            return False
        self.forbidden.pop(name, None)
        self._changed(name)
        return True

    def wrapper(self) -> SubscriptionGroupWrapper:
        """Return everything in the form of subscriptionGroup.json and code 201."""
        return SubscriptionGroupWrapper(
            data_version=self.version.value,
            forbidden_table=self.forbidden,
            subscription_group_table=self._groups,
        )

    def take_over(self, known: SubscriptionGroupWrapper) -> None:
        """Replace all groups, and the version. Reports nothing: no part has read them yet, except for pulls of a rebuild."""
        self.version.value = known.data_version
        self.forbidden.clear()
        self.forbidden.update(known.forbidden_table)
        self._fill(known)

    def _fill(self, known: SubscriptionGroupWrapper) -> None:
        self._groups = {group.group_name: group for group in known.subscription_group_table.values()}
        for name in PRESET_GROUPS:
            self._groups.setdefault(name, SubscriptionGroupConfig(group_name=name))

    def _changed(self, name: str) -> None:
        self.version.bump()
        self._on_change(name)


def change_group_attributes(present: dict[str, str], given: dict[str, str]) -> dict[str, str]:
    """Apply attributes as RocketMQ's tools send them: `+name` sets, `-name` removes, a plain name sets too.

    Raises IllegalPolicy.
    """
    attributes = dict(present)
    for key, value in given.items():
        name = key.lstrip("+-")
        if key.startswith("-"):
            attributes.pop(name, None)
        else:
            attributes[name] = value
    if attributes.get(RETRY_ATTRIBUTE):
        parse_policy(attributes[RETRY_ATTRIBUTE])
    return attributes


def check_group_to_put(name: str) -> None:
    """Raise IllegalName for a group that clients may not create or change, the broker's own included."""
    check_group(name)
    if name == GATEWAY_GROUP:
        raise IllegalName(f"the group {GATEWAY_GROUP} belongs to the gateways and cannot be changed")
    if name.startswith(GANTRY_SYSTEM_PREFIX):
        raise IllegalName(
            f"the group {name} cannot be created: {GANTRY_SYSTEM_PREFIX} is the prefix of system names"
        )


def groups_from(
    content: object, now_ms: Callable[[], int], *, auto_create: bool, on_change: Callable[[str], None]
) -> GroupTable:
    """Return the table of subscriptionGroup.json, a new one for None. Raises MalformedBody."""
    known, version = SubscriptionGroupWrapper(), DataVersionCounter(now_ms)
    if content is not None:
        try:
            known = msgspec.convert(content, SubscriptionGroupWrapper, strict=False, str_keys=True)
        except msgspec.ValidationError as error:
            raise MalformedBody(f"not a table of groups: {error}") from error
        version = DataVersionCounter(now_ms, known.data_version)
    return GroupTable(version, known, auto_create=auto_create, on_change=on_change)
