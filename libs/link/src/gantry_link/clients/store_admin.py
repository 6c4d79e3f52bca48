"""Admin requests for a broker's topics, groups, clients and settings. One method per request code."""

from __future__ import annotations

from gantry_link.calling.store_calls import BULK, StoreCalls, refusal
from gantry_wire.bodies.admin import ConsumerConnection, ConsumeStats, ProducerConnection, TopicStatsTable
from gantry_wire.bodies.clients import ConsumerIdList, HeartbeatData, ResetOffsetBody
from gantry_wire.bodies.cluster import (
    GroupList,
    KVTable,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from gantry_wire.bodies.config_text import format_config_text, parse_config_text
from gantry_wire.bodies.json_body import decode_body, encode_body
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.headers.admin import (
    ConsumeStatsHeader,
    CreateTopicHeader,
    DeleteGroupHeader,
    ProducerGroupHeader,
    ResetOffsetHeader,
)
from gantry_wire.headers.messages import ConsumerGroupHeader, UnregisterClientHeader
from gantry_wire.headers.nameserver import TopicHeader


class StoreAdminCalls(StoreCalls):
    """Requests of administrators and tools. Every method raises BrokerRefused or LinkError."""

    async def create_topic(self, header: CreateTopicHeader) -> None:
        """17: create or change a topic."""
        await self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def topics(self) -> TopicConfigSerializeWrapper:
        """21: return all topics of the broker."""
        answer = await self.ask(RequestCode.GET_ALL_TOPIC_CONFIG, connection_class=BULK)
        return decode_body(answer.body, TopicConfigSerializeWrapper)

    async def topic(self, topic: str) -> TopicConfig:
        """351: return one topic of the broker."""
        answer = await self.ask(RequestCode.GET_TOPIC_CONFIG, TopicHeader(topic=topic))
        return decode_body(answer.body, TopicConfig)

    async def delete_topic(self, topic: str) -> None:
        """215: delete a topic and its queues."""
        await self.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic=topic))

    async def topic_stats(self, topic: str) -> TopicStatsTable:
        """202: return the min and max offset of each queue of a topic."""
        answer = await self.ask(
            RequestCode.GET_TOPIC_STATS_INFO, TopicHeader(topic=topic), connection_class=BULK
        )
        return decode_body(answer.body, TopicStatsTable)

    async def groups_of_topic(self, topic: str) -> list[str]:
        """300: return the groups that consume a topic or have offsets in it."""
        answer = await self.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicHeader(topic=topic))
        return decode_body(answer.body, GroupList).group_list

    async def put_group(self, group: SubscriptionGroupConfig) -> None:
        """200: create or change a consumer group."""
        await self.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, encode_body(group))

    async def groups(self) -> SubscriptionGroupWrapper:
        """201: return all consumer groups of the broker."""
        answer = await self.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, connection_class=BULK)
        return decode_body(answer.body, SubscriptionGroupWrapper)

    async def delete_group(self, group: str, *, clean_offset: bool) -> None:
        """207: delete a group, and its offsets if `clean_offset`."""
        header = DeleteGroupHeader(group_name=group, clean_offset=clean_offset, remove_offset=clean_offset)
        await self.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

    async def consume_stats(self, group: str, topic: str | None = None) -> ConsumeStats:
        """208: return a group's consume progress in one topic or in all its topics."""
        header = ConsumeStatsHeader(consumer_group=group, topic=topic)
        answer = await self.ask(RequestCode.GET_CONSUME_STATS, header, connection_class=BULK)
        return decode_body(answer.body, ConsumeStats)

    async def reset_offsets(self, header: ResetOffsetHeader) -> ResetOffsetBody:
        """222: set a group's offsets. Returns the new offsets, and how many messages beyond them are delivered again."""
        answer = await self.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        return decode_body(answer.body, ResetOffsetBody)

    async def consumer_ids(self, group: str) -> list[str]:
        """38: return the client ids of a group's connected consumers."""
        header = ConsumerGroupHeader(consumer_group=group)
        answer = await self.call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
        if answer.code == ResponseCode.SYSTEM_ERROR and (answer.remark or "").startswith("no consumer"):
            return []
        if answer.code:
            raise refusal(answer)
        return decode_body(answer.body, ConsumerIdList).consumer_id_list

    async def consumer_connection(self, group: str) -> ConsumerConnection | None:
        """203: return a group's connected consumers and subscriptions, or None if it is not online."""
        header = ConsumerGroupHeader(consumer_group=group)
        answer = await self.call(RequestCode.GET_CONSUMER_CONNECTION_LIST, header, connection_class=BULK)
        if answer.code == ResponseCode.CONSUMER_NOT_ONLINE:
            return None
        if answer.code:
            raise refusal(answer)
        return decode_body(answer.body, ConsumerConnection)

    async def producer_connection(self, group: str) -> ProducerConnection:
        """204: return a producer group's connected clients."""
        answer = await self.ask(
            RequestCode.GET_PRODUCER_CONNECTION_LIST,
            ProducerGroupHeader(producer_group=group),
            connection_class=BULK,
        )
        return decode_body(answer.body, ProducerConnection)

    async def heartbeat(self, data: HeartbeatData) -> None:
        """34: send a heartbeat with the groups of this client."""
        await self.ask(RequestCode.HEART_BEAT, None, encode_body(data))

    async def unregister_client(
        self, client_id: str, *, producer_group: str | None = None, consumer_group: str | None = None
    ) -> None:
        """35: leave a group."""
        header = UnregisterClientHeader(
            client_id=client_id, producer_group=producer_group, consumer_group=consumer_group
        )
        await self.ask(RequestCode.UNREGISTER_CLIENT, header)

    async def runtime_info(self) -> dict[str, str]:
        """28: return the broker's runtime statistics, with RocketMQ's names."""
        answer = await self.ask(RequestCode.GET_BROKER_RUNTIME_INFO, connection_class=BULK)
        return decode_body(answer.body, KVTable).table

    async def broker_config(self) -> dict[str, str]:
        """26: return the broker's settings."""
        answer = await self.ask(RequestCode.GET_BROKER_CONFIG, connection_class=BULK)
        return parse_config_text(answer.body)

    async def update_broker_config(self, settings: dict[str, str]) -> None:
        """25: change settings of the running broker."""
        await self.ask(RequestCode.UPDATE_BROKER_CONFIG, None, format_config_text(settings))
