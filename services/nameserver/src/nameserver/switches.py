"""The settings 318 may change at run time, by RocketMQ's names."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

WaitSeconds = Annotated[int, Meta(ge=0, le=600)]
ScanMs = Annotated[int, Meta(ge=50, le=60_000)]


class Switches(msgspec.Struct, kw_only=True, rename="camel"):
    """Defaults are those of RocketMQ 5.3.3."""

    order_message_enable: bool = False
    """Return a topic's order configuration with its route."""
    return_order_topic_config_to_broker: bool = True
    """Return the order configuration of all topics to every registering broker."""
    enable_all_topic_list: bool = True
    enable_topic_list: bool = True
    support_acting_master: bool = False
    """Show the lowest slave of a broker without master as its master, where the broker wants that."""
    notify_min_broker_id_changed: bool = False
    delete_topic_with_broker_registration: bool = False
    """Remove topics a registering broker does not name."""
    need_wait_for_service: bool = False
    """Refuse route requests until the brokers have had time to register."""
    wait_seconds_for_service: WaitSeconds = 45
    scan_not_active_broker_interval: ScanMs = 5000
    """Milliseconds between scans for silent brokers."""


def changed_switches(switches: Switches, values: dict[str, str]) -> dict[str, bool | int]:
    """Return the attributes text values set, by our names. Raises ValueError naming an unreadable value."""
    found: dict[str, bool | int] = {}
    for info in msgspec.structs.fields(switches):
        text = values.get(info.encode_name)
        if text is None:
            continue
        try:
            found[info.name] = msgspec.convert(text, info.type, strict=False)
        except msgspec.ValidationError as error:
            raise ValueError(f"{info.encode_name}={text[:64]}: {_wanted(info.type)}") from error
    return found


def _wanted(kind: object) -> str:
    described = msgspec.inspect.type_info(kind)
    if isinstance(described, msgspec.inspect.IntType):
        return f"write a whole number from {described.ge} to {described.le}"
    return "write true or false"
