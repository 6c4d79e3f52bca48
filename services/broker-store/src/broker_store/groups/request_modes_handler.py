"""Request 401: how a group gets a topic's messages. Every group pulls; nothing else can be set."""

from dataclasses import dataclass

from broker_store.groups.groups import GroupTable
from broker_store.ports import Commands, Peer, TopicTable
from gantry_wire.bodies.admin import SetMessageRequestMode
from gantry_wire.bodies.json_body import decode_body
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.names import RETRY_PREFIX

PULL = "PULL"


@dataclass(frozen=True, slots=True)
class RequestModeHandlers:
    """Handles requests of tools about modes."""

    topics: TopicTable
    groups: GroupTable

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {RequestCode.SET_MESSAGE_REQUEST_MODE: ("adminBroker", self.set)}

    def set(self, _peer: Peer, command: Command) -> bytes:
        """Handle 401: accepts PULL. POP is not served."""
        wanted = decode_body(command.body, SetMessageRequestMode)
        if wanted.topic.startswith(RETRY_PREFIX):
            raise RefusedRequest(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
        if self.topics.find(wanted.topic) is None or self.topics.is_internal(wanted.topic):
            remark = f"topic[{wanted.topic}] not exist"
            raise RefusedRequest(ResponseCode.TOPIC_NOT_EXIST, remark)
        if self.groups.find(wanted.consumer_group) is None:
            remark = f"subscription group [{wanted.consumer_group}] does not exist"
            raise RefusedRequest(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if wanted.mode != PULL:
            remark = f"mode {wanted.mode[:16]} is not served here: every group pulls, write PULL"
            raise RefusedRequest(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
        return encode_response(ResponseCode.SUCCESS, command.opaque)
