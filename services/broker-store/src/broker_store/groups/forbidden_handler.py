"""Request 353: forbids a group to read a topic, and allows it again.

Pulls that use the group's heartbeats are refused meanwhile (16).
"""

from dataclasses import dataclass

from broker_store.groups.groups import GroupTable
from broker_store.ports import Commands, Peer, Saving
from gantry_wire.bodies.admin import GroupForbidden
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import Command
from gantry_wire.frames.encode import encode_response
from gantry_wire.headers.admin import GroupForbiddenHeader


@dataclass(frozen=True, slots=True)
class ForbiddenHandlers:
    """Reads and changes what a group may not read."""

    groups: GroupTable
    saver: Saving
    """The table reports every change to it."""

    def commands(self) -> Commands:
        """Return the entries of the command table."""
        return {RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: ("adminBroker", self.change)}

    def change(self, peer: Peer, command: Command) -> None:
        """Handle 353: change it where `readable` is given. Answers with the current value once it is saved."""
        header = command.read(GroupForbiddenHeader)
        if header.readable is not None:
            self.groups.set_readable(header.group, header.topic, readable=header.readable)
        body = GroupForbidden(
            group=header.group, topic=header.topic, readable=self.groups.may_read(header.group, header.topic)
        )

        def answer(refusal: RefusedRequest | None) -> None:
            if command.is_oneway:
                return
            if refusal is None:
                peer.send(encode_response(ResponseCode.SUCCESS, command.opaque, body=encode_body(body)))
            else:
                remark = f"the change holds but could not be saved: {refusal.remark}"
                peer.send(encode_response(ResponseCode.SYSTEM_ERROR, command.opaque, remark=remark))

        self.saver.when_saved(answer)
