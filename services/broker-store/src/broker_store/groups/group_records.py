"""The table of groups as records, and subscriptionGroup.json."""

from collections.abc import Mapping

import msgspec

from broker_store.config.config_files import ConfigFile, DataVersionCounter
from broker_store.config_log.config_entries import ConfigEntries
from broker_store.config_log.config_entry import Key, Kind, Table
from broker_store.config_log.exports import FoundFile, Origin, settle
from broker_store.config_log.topics_table import numbered
from broker_store.groups.groups import GroupTable
from gantry_chassis.logs.structured import get_logger
from gantry_wire.bodies.cluster import DataVersion, SubscriptionGroupConfig, SubscriptionGroupWrapper
from gantry_wire.bodies.json_body import decode_body, encode_body
from gantry_wire.errors import WireError
from gantry_wire.names import PRESET_GROUPS

_log = get_logger()


def settle_groups(
    groups: GroupTable, entries: ConfigEntries, found: FoundFile | None, *, was_stopped: bool
) -> Origin:
    """Let the file's groups count, which the table holds, or those of the log. Call it when the log is read to its end."""
    origin, taken = settle(Table.GROUPS, entries, found, groups.version, was_stopped=was_stopped)
    if taken is None:
        return origin
    known = SubscriptionGroupWrapper(data_version=taken.data_version)
    for key, value in entries.live(Table.GROUPS).items():
        try:
            if key.kind is Kind.GROUP:
                known.subscription_group_table[key.name] = decode_body(value, SubscriptionGroupConfig)
            else:
                known.forbidden_table[key.name] = msgspec.json.decode(value, type=dict[str, int])
        except (WireError, msgspec.DecodeError) as error:
            _log.error("a group in the log cannot be read", group=key.name, reason=str(error))
    groups.take_over(known)
    return origin


class KeptGroups:
    """The table of groups, as its records see it."""

    table = Table.GROUPS

    def __init__(self, groups: GroupTable) -> None:
        self._groups = groups

    @property
    def version(self) -> DataVersionCounter:
        """See KeptTable."""
        return self._groups.version

    def values(self) -> Mapping[Key, bytes]:
        """See KeptTable."""
        whole = self._groups.wrapper()
        groups = {
            group_key(name): encode_body(group) for name, group in whole.subscription_group_table.items()
        }
        return groups | {_forbidden_key(name): _bits(bits) for name, bits in whole.forbidden_table.items()}

    def value(self, key: Key) -> bytes | None:
        """See KeptTable."""
        if key.kind is Kind.FORBIDDEN:
            bits = self._groups.forbidden.get(key.name)
            return None if bits is None else _bits(bits)
        group = self._groups.find(key.name)
        return None if group is None else encode_body(group)

    def presets(self) -> Mapping[Key, bytes]:
        """See KeptTable."""
        return {
            group_key(name): encode_body(SubscriptionGroupConfig(group_name=name)) for name in PRESET_GROUPS
        }


class GroupsFile:
    """subscriptionGroup.json."""

    def __init__(self, file: ConfigFile, presets: Mapping[Key, bytes]) -> None:
        self._file = file
        self._presets = presets
        self.path = file.path

    def encode(self, values: Mapping[Key, bytes], version: DataVersion, number: int | None) -> bytes:
        """See TableFile."""
        values = {**self._presets, **values}
        return msgspec.json.encode(
            {
                "dataVersion": version,
                "forbiddenTable": _of_kind(values, Kind.FORBIDDEN),
                **numbered(number),
                "subscriptionGroupTable": _of_kind(values, Kind.GROUP),
            }
        )

    def store(self, content: bytes) -> None:
        """See TableFile."""
        self._file.store_bytes(content)


def group_key(name: str) -> Key:
    """Return the key of a group's entry."""
    return Key(Kind.GROUP, name)


def keys_of(group: str) -> tuple[Key, Key]:
    """Return the keys of everything that a change of a group may change."""
    return group_key(group), _forbidden_key(group)


def _forbidden_key(name: str) -> Key:
    return Key(Kind.FORBIDDEN, name)


def _bits(of_group: dict[str, int]) -> bytes:
    return msgspec.json.encode(of_group, order="sorted")


def _of_kind(live: Mapping[Key, bytes], kind: Kind) -> dict[str, msgspec.Raw]:
    return {key.name: msgspec.Raw(value) for key, value in live.items() if key.kind is kind}
