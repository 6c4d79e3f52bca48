"""Requests 25 and 26: change and query the broker's settings at run time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from broker_store.config.broker_config import BrokerConfig
from broker_store.ports import Commands, Peer
from gantry_wire.bodies.config_text import format_config_text, parse_config_text
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.admin import BrokerConfigReplyHeader


class Changes(Protocol):
    """Changes settings so that they survive a restart."""

    config: BrokerConfig

    def update(self, changes: Mapping[str, str], answer: Callable[[RefusedRequest | None], None]) -> None:
        """Change settings, all or none, and call back once they will survive a restart. Raises RefusedRequest."""
        ...


@dataclass(frozen=True, slots=True)
class ConfigurationHandlers:
    """Handles requests about settings."""

    changes: Changes

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {
            RequestCode.UPDATE_BROKER_CONFIG: ("adminBroker", self.update),
            RequestCode.GET_BROKER_CONFIG: ("adminBroker", self.get),
        }

    def update(self, peer: Peer, command: Command) -> None:
        """Handle 25: change settings, all or none. Answers once they will survive a restart."""

        def answer(refusal: RefusedRequest | None) -> None:
            if command.is_oneway:
                return
            if refusal is None:
                peer.send(encode_response(ResponseCode.SUCCESS, command.opaque))
            else:
                remark = f"the change holds until the broker stops; it could not be saved: {refusal.remark}"
                peer.send(encode_response(ResponseCode.SYSTEM_ERROR, command.opaque, remark=remark))

        self.changes.update(parse_config_text(command.body), answer)

    def get(self, _peer: Peer, command: Command) -> bytes:
        """Handle 26: all settings as `key=value` lines."""
        version = msgspec.json.encode(self.changes.config.version.value).decode()
        body = format_config_text(self.changes.config.items())
        header = BrokerConfigReplyHeader(version=version)
        return encode_response(ResponseCode.SUCCESS, command.opaque, header, body)
