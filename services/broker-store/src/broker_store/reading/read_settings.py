"""Settings of the reading side that may change at run time. Code 25 writes this object; handlers read it."""

import os
from dataclasses import dataclass, field
from functools import partial

from broker_store.config.broker_conf import SHORT_POLLING_MS
from broker_store.config.broker_config import BrokerConfig, read_switch
from broker_store.groups.groups import GroupTable
from broker_store.reading.pull import BatchLimits, PullLimits

PERM_READ = 4
MEMORY_SHARE_PERCENT = 40
"""Records within this share of the machine's memory from the log's end count as in memory (RocketMQ's ratio)."""


def default_limits() -> PullLimits:
    """Return RocketMQ's limits for this machine's memory."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return PullLimits(memory_bytes=memory_bytes * MEMORY_SHARE_PERCENT // 100)


@dataclass(slots=True)
class ReadSettings:
    """Current values."""

    broker_permission: int = 6
    long_polling_enable: bool = True
    """If off, a pull is held for `short_polling_ms` at most."""
    short_polling_ms: int = SHORT_POLLING_MS
    limits: PullLimits = field(default_factory=default_limits)
    wide_limits: PullLimits = field(default_factory=lambda: default_limits().with_count(1024, 1024 * 1024))
    """Limits of pulls that ask for more messages at once than RocketMQ's (`gantryWide`)."""
    property_filter_enable: bool = True
    """Whether SQL92 filters are served (RocketMQ's default: no)."""
    server_side_reset: bool = True
    """Whether a reset changes the store's offsets (RocketMQ 5.x), or only notifies the clients (before)."""
    slave_read_enable: bool = False
    """Whether answers to pulls of old messages name a slave to continue at (slaveReadEnable)."""
    protect_broker: bool = False
    """Pause groups that are more than `fallbehind_bytes_max` behind (disableConsumeIfConsumerReadSlowly)."""
    fallbehind_bytes_max: int = 16 * 1024 * 1024 * 1024

    def set_pull_bytes_max(self, size: int) -> None:
        """Set the bytes of recent messages per reply."""
        self.limits = PullLimits(
            BatchLimits(self.limits.memory.count, size), self.limits.disk, self.limits.memory_bytes
        )


def bind_settings(config: BrokerConfig, settings: ReadSettings, groups: GroupTable) -> None:
    """Let code 25 change these settings."""

    def set_number(name: str, value: int) -> None:
        setattr(settings, name, value)

    def set_switch(name: str, value: str) -> None:
        setattr(settings, name, read_switch(value))

    def set_auto_create(value: str) -> None:
        groups.set_auto_create(enable=read_switch(value))

    bind, bind_number = config.bind, config.bind_number
    bind_number("brokerPermission", partial(set_number, "broker_permission"))
    bind("longPollingEnable", partial(set_switch, "long_polling_enable"))
    bind_number("shortPollingTimeMills", partial(set_number, "short_polling_ms"))
    bind("slaveReadEnable", partial(set_switch, "slave_read_enable"))
    bind("disableConsumeIfConsumerReadSlowly", partial(set_switch, "protect_broker"))
    bind_number("consumerFallbehindThreshold", partial(set_number, "fallbehind_bytes_max"))
    bind("enablePropertyFilter", partial(set_switch, "property_filter_enable"))
    bind("useServerSideResetOffset", partial(set_switch, "server_side_reset"))
    bind_number("maxTransferBytesOnMessageInMemory", settings.set_pull_bytes_max)
    bind("autoCreateSubscriptionGroup", set_auto_create)
