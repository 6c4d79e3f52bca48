"""Shows (319) and changes (318) settings by RocketMQ's names."""

from __future__ import annotations

import msgspec

from gantry_chassis.settings.loading import masked
from gantry_wire.bodies.config_text import format_config_text, parse_config_text
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import MalformedBody, RefusedRequest
from nameserver.settings import ROCKETMQ_NAMES, NameserverSettings
from nameserver.switches import Switches, changed_switches

KV_FILE, CONFIG_FILE = "kvConfig.json", "namesrv.properties"
BLACK_LIST = frozenset({"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"})


class RunConfig:
    """The settings of the running process. Changes go into `switches`, which the other modules read."""

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
        """Return all settings by RocketMQ's names; settings RocketMQ lacks by ours."""
        theirs = {ours: name for name, ours in ROCKETMQ_NAMES.items()}
        current = masked(self._settings) | msgspec.structs.asdict(self.switches)
        current["http_port"] = self._settings.http_port_or_next
        shown = {theirs.get(name, name): _text(value) for name, value in current.items()}
        shown["configBlackList"] = ";".join(sorted(self._black_list))
        shown["kvConfigPath"] = str(self._settings.data_dir / KV_FILE)
        shown["configStorePath"] = str(self._settings.data_dir / CONFIG_FILE)
        return dict(sorted(shown.items()))

    def content(self) -> bytes:
        """Return the settings changed by updates, as `name=value` lines for the next start."""
        names = {ours: theirs for theirs, ours in ROCKETMQ_NAMES.items()}
        return format_config_text({names[name]: _text(value) for name, value in self._updated.items()})

    def update(self, body: bytes) -> None:
        """Apply a text of changes, all of it or nothing.

        Raises RefusedRequest: 16 for names that may never be changed this way; 1 for an unreadable text or value, and
        for names only the start can set. Unknown names are ignored, as in RocketMQ.
        """
        try:
            values = parse_config_text(body)
        except MalformedBody as error:
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, "string2Properties error") from error
        if forbidden := sorted(self._black_list & values.keys()):
            message = f"Can not update config in black list. ({', '.join(forbidden)})"
            raise RefusedRequest(ResponseCode.NO_PERMISSION, message)
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
        """Apply the changes of earlier updates and return their names. Raises ValueError or MalformedBody."""
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
        value = int(value)  # RocketMQ uses whole seconds
    return str(value).lower() if isinstance(value, bool) else str(value)
