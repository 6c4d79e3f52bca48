"""The table of topics as records, and topics.json."""

from collections.abc import Mapping

import msgspec

from broker_store.commit.topics import TopicTable
from broker_store.config.config_files import ConfigFile, DataVersionCounter
from broker_store.config_log.config_entries import ConfigEntries
from broker_store.config_log.config_entry import Key, Kind, Table
from broker_store.config_log.exports import NUMBER_FIELD, FoundFile, Origin, number_in, settle
from gantry_chassis.logs.structured import get_logger
from gantry_wire.bodies.cluster import DataVersion, TopicConfig
from gantry_wire.bodies.json_body import decode_body, encode_body
from gantry_wire.errors import WireError

_log = get_logger()


def found_file(file: ConfigFile, content: object | None, *, is_table: bool = True) -> FoundFile | None:
    """Return what an opening finds of a JSON file, whose content it has just loaded. `is_table`: the content could be read as such."""
    return FoundFile(is_table and not file.has_lost_newest, number_in(content)) if file.exists() else None


def numbered(number: int | None) -> dict[str, int]:
    """Return the field of a JSON file with its number."""
    return {} if number is None else {NUMBER_FIELD: number}


def settle_topics(
    topics: TopicTable, entries: ConfigEntries, found: FoundFile | None, *, was_stopped: bool
) -> Origin:
    """Let the file's topics count, which the table holds, or those of the log. Call it when the log is read to its end."""
    origin, taken = settle(Table.TOPICS, entries, found, topics.version, was_stopped=was_stopped)
    if taken is None:
        return origin
    known: list[TopicConfig] = []
    for key, value in entries.live(Table.TOPICS).items():
        try:
            known.append(decode_body(value, TopicConfig))
        except WireError as error:
            _log.error("a topic in the log cannot be read", topic=key.name, reason=str(error))
    topics.take_over(known, taken.data_version)
    return origin


class KeptTopics:
    """The table of topics, as its records see it."""

    table = Table.TOPICS

    def __init__(self, topics: TopicTable) -> None:
        self._topics = topics

    @property
    def version(self) -> DataVersionCounter:
        """See KeptTable."""
        return self._topics.version

    def values(self) -> Mapping[Key, bytes]:
        """See KeptTable."""
        return {topic_key(name): encode_body(config) for name, config in self._topics.all().items()}

    def value(self, key: Key) -> bytes | None:
        """See KeptTable."""
        config = self._topics.find(key.name)
        return None if config is None else encode_body(config)

    def presets(self) -> Mapping[Key, bytes]:
        """See KeptTable."""
        return {topic_key(name): encode_body(config) for name, config in self._topics.presets().items()}


class TopicsFile:
    """topics.json."""

    def __init__(self, file: ConfigFile, presets: Mapping[Key, bytes]) -> None:
        self._file = file
        self._presets = presets
        self.path = file.path

    def encode(self, values: Mapping[Key, bytes], version: DataVersion, number: int | None) -> bytes:
        """See TableFile."""
        values = {**self._presets, **values}
        table = {key.name: msgspec.Raw(value) for key, value in values.items()}
        return msgspec.json.encode({"dataVersion": version, **numbered(number), "topicConfigTable": table})

    def store(self, content: bytes) -> None:
        """See TableFile."""
        self._file.store_bytes(content)


def topic_key(name: str) -> Key:
    """Return the key of a topic's entry."""
    return Key(Kind.TOPIC, name)
