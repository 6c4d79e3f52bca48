"""318 and 319: settings by RocketMQ's names, shown as text, and changed while running where that is allowed."""

from __future__ import annotations

import msgspec

from gantry_chassis.settings import masked
from gantry_wire.codes import ResponseCode
from gantry_wire.config_text import format_config_text, parse_config_text
from gantry_wire.errors import MalformedBody, RefusedRequest
from nameserver.settings import ROCKETMQ_NAMES, NameserverSettings
from nameserver.switches import Switches, changed_switches

KV_FILE, CONFIG_FILE = "kvConfig.json", "namesrv.properties"
BLACK_LIST = frozenset({"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"})


class RunConfig:
    """The settings of the running process. Changes go into `switches`, which everything else reads."""

    def __init__(self, settings: NameserverSettings, switches: Switches) -> None:
        self._settings = settings
        self.switches = switches
        self._updated: dict[str, bool | int] = {}
        self._black_list = BLACK_LIST | {
            name.strip() for name in settings.config_black_list.split(";") if name.strip()
        }

    def text(self) -> bytes:
        """Return all settings as `name=value` lines."""
        return format_config_text(self.values())

    def values(self) -> dict[str, str]:
        """Return all settings by RocketMQ's names; those only we have by ours."""
        theirs = {ours: name for name, ours in ROCKETMQ_NAMES.items()}
        current = masked(self._settings) | msgspec.structs.asdict(self.switches)
        current["http_port"] = self._settings.http_port_or_next
        shown = {theirs.get(name, name): _text(value) for name, value in current.items()}
        shown["configBlackList"] = ";".join(sorted(self._black_list))
        shown["kvConfigPath"] = str(self._settings.data_dir / KV_FILE)
        shown["configStorePath"] = str(self._settings.data_dir / CONFIG_FILE)
        return dict(sorted(shown.items()))

    def content(self) -> bytes:
        """Return what updates changed, as `name=value` lines: what a restart takes up again."""
        names = {ours: theirs for theirs, ours in ROCKETMQ_NAMES.items()}
        return format_config_text({names[name]: _text(value) for name, value in self._updated.items()})

    def update(self, body: bytes) -> None:
        """Change what a text says, all of it or nothing.

        RefusedRequest: 16 for names that may never be changed so, 1 for text or values that cannot be read, and for
        names that only the start can set. Names nobody knows are ignored, as RocketMQ does.
        """
        try:
            values = parse_config_text(body)
        except MalformedBody as error:
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, "string2Properties error") from error
        if forbidden := sorted(self._black_list & values.keys()):
            words = f"Can not update config in black list. ({', '.join(forbidden)})"
            raise RefusedRequest(ResponseCode.NO_PERMISSION, words)
        if fixed := sorted(name for name in values if self._is_fixed(name)):
            raise RefusedRequest(
                ResponseCode.SYSTEM_ERROR, f"{', '.join(fixed)}: only the start can set this"
            )
        try:
            changed = changed_switches(self.switches, values)
        except ValueError as error:
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, str(error)) from error
        self._take(changed)

    def restore(self, kept: bytes) -> list[str]:
        """Take up what earlier updates left, and name it; ValueError or MalformedBody when it cannot be read."""
        changed = changed_switches(self.switches, parse_config_text(kept))
        self._take(changed)
        return sorted(changed)

    def _take(self, changed: dict[str, bool | int]) -> None:
        self._updated |= changed
        for name, value in changed.items():
            setattr(self.switches, name, value)

    def _is_fixed(self, name: str) -> bool:
        ours = ROCKETMQ_NAMES.get(name, name)
        return ours in NameserverSettings.__struct_fields__ and ours not in Switches.__struct_fields__


def _text(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # RocketMQ has whole seconds
    return str(value).lower() if isinstance(value, bool) else str(value)
