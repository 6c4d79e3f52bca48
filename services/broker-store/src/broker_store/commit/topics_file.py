"""topics.json becomes the table of topics, with those every broker has. Knows no log and no request."""

from typing import cast

from broker_store.clocks.store_clock import StoreClock
from broker_store.commit.topics import TopicPolicy, TopicTable
from broker_store.config.config_files import ConfigFile, DataVersionCounter
from broker_store.config.delay_levels import parse_levels
from broker_store.settings import Settings
from gantry_chassis.logs import get_logger
from gantry_wire import fastjson
from gantry_wire.bodies import TopicConfigSerializeWrapper, decode_body
from gantry_wire.errors import WireError

_log = get_logger()


def load_topics(file: ConfigFile, settings: Settings, clock: StoreClock) -> TopicTable:
    """Return the topics of topics.json, with those every broker has."""
    policy = TopicPolicy(
        settings.cluster_name,
        settings.broker_name,
        settings.auto_create_topics,
        settings.topic_queues_default,
        settings.cluster_topic_enable,
        settings.broker_topic_enable,
        settings.trace_topic_enable,
        len(parse_levels(settings.delay_levels).durations_ms),
    )
    wrapper = TopicConfigSerializeWrapper(data_version=DataVersionCounter(clock.now_ms).value)
    content = file.load()
    if isinstance(content, dict):
        try:
            wrapper = decode_body(
                fastjson.dumps(cast("dict[str, object]", content)), TopicConfigSerializeWrapper
            )
        except WireError as error:
            _log.error("topics.json is of another shape and is not used", reason=str(error))
    version = DataVersionCounter(clock.now_ms, wrapper.data_version)
    return TopicTable(policy, version, wrapper.topic_config_table.values())
