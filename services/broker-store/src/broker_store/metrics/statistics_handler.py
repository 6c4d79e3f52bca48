"""Request 315: one counter by RocketMQ's name, over the last minute, hour and day. Adds no counting of its own."""

from collections.abc import Callable
from dataclasses import dataclass

from broker_store.metrics.rates import Meter, Rate
from broker_store.metrics.store_metrics import StoreMetrics
from broker_store.ports import Commands, Peer
from gantry_wire.bodies.admin import BrokerStatsData, BrokerStatsItem
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.admin import StatsHeader

Meters = tuple[Meter, Meter | None]
"""The sum, and the number of events. Their quotient is RocketMQ's `avgpt`."""


@dataclass(frozen=True, slots=True)
class StatisticsHandlers:
    """Handles queries about counters."""

    metrics: StoreMetrics
    cluster_name: str

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {RequestCode.VIEW_BROKER_STATS_DATA: ("adminBroker", self.view)}

    def view(self, _peer: Peer, command: Command) -> bytes:
        """Handle 315: sums and rates of one name and key."""
        header = command.read(StatsHeader)
        find = self._names().get(header.stats_name)
        meters = None if find is None else find(header.stats_key)
        if meters is None:
            remark = f"The stats <{header.stats_name}> <{header.stats_key}> not exist"
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, remark)
        now_s = self.metrics.sampled_s
        counted, times = meters
        body = BrokerStatsData(
            stats_minute=_item(counted.minute(now_s), None if times is None else times.minute(now_s)),
            stats_hour=_item(counted.hour(now_s), None if times is None else times.hour(now_s)),
            stats_day=_item(counted.day(now_s), None if times is None else times.day(now_s)),
        )
        return encode_response(ResponseCode.SUCCESS, command.opaque, body=encode_body(body))

    def _names(self) -> dict[str, Callable[[str], Meters | None]]:
        """Return a function per name that finds the counter of a key: topic, `topic@group`, or name of the cluster."""
        return {
            "TOPIC_PUT_NUMS": self._put_messages,
            "TOPIC_PUT_SIZE": self._put_bytes,
            "GROUP_GET_NUMS": self._got_messages,
            "GROUP_GET_SIZE": self._got_bytes,
            "SNDBCK_PUT_NUMS": self._sent_back,
            "BROKER_PUT_NUMS": lambda key: self._of_broker(key, self.metrics.put_meter),
            "BROKER_GET_NUMS": lambda key: self._of_broker(key, self.metrics.get_meter),
        }

    def _put_messages(self, topic: str) -> Meters | None:
        found = self.metrics.topics.get(topic)
        return None if found is None else (found.messages_meter, found.messages_meter)

    def _put_bytes(self, topic: str) -> Meters | None:
        found = self.metrics.topics.get(topic)
        return None if found is None else (found.size_meter, found.messages_meter)

    def _got_messages(self, key: str) -> Meters | None:
        found = self.metrics.groups.get(_pair(key))
        return None if found is None else (found.messages_meter, found.pulls_meter)

    def _got_bytes(self, key: str) -> Meters | None:
        found = self.metrics.groups.get(_pair(key))
        return None if found is None else (found.size_meter, found.pulls_meter)

    def _sent_back(self, key: str) -> Meters | None:
        found = self.metrics.sent_back.get(_pair(key))
        return None if found is None else (found.meter, found.meter)

    def _of_broker(self, key: str, meter: Meter) -> Meters | None:
        return (meter, None) if key == self.cluster_name else None


def _pair(key: str) -> tuple[str, str]:
    topic, _, group = key.partition("@")
    return topic, group


def _item(rate: Rate, times: Rate | None) -> BrokerStatsItem:
    average = rate.sum / times.sum if times is not None and times.sum else 0.0
    return BrokerStatsItem(sum=rate.sum, tps=rate.per_second, avgpt=average)
