# ruff: noqa: ARG002 - the Protocol TableFile says what these arguments are
"""The changes of code 25 as records, and config/broker.properties: `key=value` lines with RocketMQ's keys.

A start applies them over all other settings and logs them. The operator's file, given with -c, is never written.
"""

from collections.abc import Callable, Mapping
from pathlib import PurePath

import msgspec

from broker_store.config.broker_config import BrokerConfig
from broker_store.config.config_files import DataVersionCounter
from broker_store.config_log.config_entries import ConfigEntries
from broker_store.config_log.config_entry import Key, Kind, Table
from broker_store.config_log.exports import NUMBER_FIELD, FoundFile, Origin, settle
from broker_store.config_log.table_records import Answer
from broker_store.log.files.files import Files
from gantry_chassis.logs.structured import get_logger
from gantry_wire.bodies.cluster import DataVersion
from gantry_wire.bodies.config_text import format_config_text, parse_config_text
from gantry_wire.errors import MalformedBody

FILE = "broker.properties"
_HEAD = b"# Settings changed while the broker ran. They go over broker.conf. Edit them while the broker is stopped: a line that is removed is forgotten.\n"
_NUMBER = f"# {NUMBER_FIELD} ".encode()

_log = get_logger()


class SettingsFile:
    """The file of one broker."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self.path = f"{directory}/{FILE}"

    def load(self) -> tuple[FoundFile | None, dict[str, str]]:
        """Return what the file is, and its settings: none where it is missing or damaged. Blocks."""
        content = self._files.read_bytes(self.path)
        if content is None:
            return None, {}
        if not content:
            return FoundFile(is_whole=False, number=None), {}
        try:
            return FoundFile(is_whole=True, number=_number_in(content)), parse_config_text(content)
        except MalformedBody as error:
            _log.error("changed settings cannot be read", path=self.path, reason=str(error))
            return FoundFile(is_whole=False, number=None), {}

    def encode(self, values: Mapping[Key, bytes], version: DataVersion, number: int | None) -> bytes:
        """See TableFile."""
        line = b"" if number is None else _NUMBER + b"%d\n" % number
        return _HEAD + line + format_config_text(dict(sorted(_settings(values).items())))

    def store(self, content: bytes) -> None:
        """See TableFile."""
        self._files.make_dirs(str(PurePath(self.path).parent))
        self._files.replace_atomically(self.path, content)


class KeptSettings:
    """The changed settings, as their records see them."""

    table = Table.SETTINGS

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    @property
    def version(self) -> DataVersionCounter:
        """See KeptTable."""
        return self._config.version

    def values(self) -> Mapping[Key, bytes]:
        """See KeptTable."""
        kept = {**self._config.refused, **self._config.kept}
        return {setting_key(name): msgspec.json.encode(value) for name, value in kept.items()}

    def value(self, key: Key) -> bytes | None:
        """See KeptTable."""
        value = self._config.kept.get(key.name, self._config.refused.get(key.name))
        return None if value is None else msgspec.json.encode(value)

    def presets(self) -> Mapping[Key, bytes]:
        """See KeptTable: settings of a start are no changes."""
        return {}


class SettingsChanges:
    """Changes settings at run time."""

    def __init__(
        self, config: BrokerConfig, changed: Callable[..., None], when_saved: Callable[[Answer], None]
    ) -> None:
        """Take what records keys, and what answers once that is durable."""
        self.config = config
        self._changed = changed
        self._when_saved = when_saved

    def update(self, changes: Mapping[str, str], answer: Answer) -> None:
        """Change settings, all or none, and call back once they will survive a restart. Raises RefusedRequest."""
        self.config.update(changes)
        self._changed(*map(setting_key, changes))
        self._when_saved(answer)


def apply_file(config: BrokerConfig, file: SettingsFile) -> FoundFile | None:
    """Apply the file's settings before the log is read to its end. Blocks."""
    found, kept = file.load()
    _apply(config, kept, file.path)
    return found


def settle_settings(
    config: BrokerConfig, entries: ConfigEntries, found: FoundFile | None, *, was_stopped: bool
) -> Origin:
    """Let the file's changes count, which are applied, or those of the log. Call it when the log is read to its end."""
    origin, taken = settle(Table.SETTINGS, entries, found, config.version, was_stopped=was_stopped)
    if taken is None:
        return origin
    known = settings_in(entries)
    if known != {**config.refused, **config.kept}:
        config.forget_changes()
        _apply(config, known, "the log")
    config.version.value = taken.data_version
    return origin


def settings_in(entries: ConfigEntries) -> dict[str, str]:
    """Return the changed settings of the log by RocketMQ's key."""
    return _settings(entries.live(Table.SETTINGS))


def _settings(values: Mapping[Key, bytes]) -> dict[str, str]:
    return {key.name: msgspec.json.decode(value, type=str) for key, value in values.items()}


def setting_key(name: str) -> Key:
    """Return the key of a setting's entry."""
    return Key(Kind.SETTING, name)


def _apply(config: BrokerConfig, kept: Mapping[str, str], source: str) -> None:
    refused = config.restore(kept)
    if config.kept:
        _log.info("settings changed before the restart apply again", path=source, **config.kept)
    for key, why in refused.items():
        _log.warning("a changed setting cannot be applied", path=source, key=key, reason=why)


def _number_in(content: bytes) -> int | None:
    for line in content.splitlines():
        if line.startswith(_NUMBER):
            digits = line[len(_NUMBER) :].strip()
            return int(digits) if digits.isdigit() else None
    return None
