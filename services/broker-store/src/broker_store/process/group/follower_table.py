"""What a replica serves that does not lead, or that stops: the messages of its group. Everything else is refused."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from broker_store.ports import Commands
from gantry_link.serving.peer import Peer
from gantry_wire.codes import GantryCode, ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.frames.command import FLAG_ONEWAY, FLAG_RESPONSE, decode_command
from gantry_wire.frames.frame_stream import RawFrame
from gantry_wire.private_requests.leading import LEADER_FIELD, NOT_LEADER

if TYPE_CHECKING:
    from gantry_guard.inner_door import InnerDoor

INTRODUCTION = frozenset({GantryCode.INTRODUCE, GantryCode.PROVE})


class GroupTable:
    """The table of a replica that serves its group alone."""

    def __init__(
        self, commands: Commands, refusal: Callable[[], RefusedRequest], door: "InnerDoor | None"
    ) -> None:
        """`refusal` answers everybody else. `door`: admits Gantry's own services, where access control is on."""
        self._commands, self._refusal, self._door = commands, refusal, door

    def without(self, codes: Iterable[int]) -> "GroupTable":  # noqa: ARG002 - the other tables' signature
        """Return the table of a port without some codes: none of them is here."""
        return self

    def receive(self, peer: Peer, raw: RawFrame) -> None:
        """Handle one frame. Raises RefusedRequest."""
        command = decode_command(raw)
        is_inner = command.code in self._commands or command.code in INTRODUCTION
        if self._door is not None and is_inner and not self._door.admit(peer, raw):
            return
        entry = self._commands.get(command.code)
        if entry is not None:
            answer = entry[1](peer, command)
            if answer is not None:
                peer.send(answer)
        elif not command.flag & (FLAG_ONEWAY | FLAG_RESPONSE):
            raise self._refusal()


def not_leader(address: str) -> RefusedRequest:
    """Return the refusal of a replica that does not lead. `address`: of the leader, empty if none is known, or if nobody may learn it."""
    leads = f"{address} leads" if address else "read the route again: it names the leader while there is one"
    fields = {"gantryCode": NOT_LEADER, **({LEADER_FIELD: address} if address else {})}
    return RefusedRequest(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        f"this replica does not lead its broker: nothing was stored; {leads}",
        fields,
    )
