"""The command table: request code → handler. Takes frames, returns reply frames."""

from collections.abc import Callable, Iterable
from typing import Protocol

from broker_store.ports import Commands, Handler
from broker_store.ports import Peer as StorePeer
from broker_store.requests.request_classes import ONEWAY_PER_TURN_MAX, RequestClass
from gantry_chassis.logs.structured import get_logger
from gantry_link.connections.turn import Turn
from gantry_link.serving.peer import Peer
from gantry_wire.codes import RequestCode, ResponseCode
from gantry_wire.errors import RefusedRequest, WireError
from gantry_wire.frames.command import FLAG_ONEWAY, FLAG_RESPONSE, decode_command
from gantry_wire.frames.frame_stream import JSON, RawFrame
from gantry_wire.frames.known_headers import KnownHeaders, KnownSend

BOUNDED_BEFORE = frozenset({"send", "replication"})
"""Classes that bound one-way requests themselves: sends by the requests in flight, replicas by their window of shipments."""

NOT_ON_FAST_PORT = frozenset(
    {
        RequestCode.PULL_MESSAGE,
        RequestCode.LITE_PULL_MESSAGE,
        RequestCode.POP_MESSAGE,
        RequestCode.PEEK_MESSAGE,
        RequestCode.NOTIFICATION,
        RequestCode.POLLING_INFO,
    }
)
"""The fast port serves everything but pulls and pops, so that held ones never share a port with sends."""


_log = get_logger()

Quick = Callable[[Peer, KnownSend, bytes], bool]
"""Takes a send whose header is like an earlier one, with its body. False when its handler must process it."""


class Door(Protocol):
    """Decides who may send what, before any handler sees it."""

    def admit(self, peer: Peer, raw: RawFrame) -> bool:
        """Whether to handle a frame. False: it is answered, or dropped. Raises RefusedRequest."""
        ...

    def admits_known(self, peer: Peer, known: KnownSend, body: bytes) -> bool:
        """Whether the fast path of `admit` admits a send with a known head. False: ask `admit`."""
        ...

    def may_send(self, peer: StorePeer, topic: str) -> bool:
        """Whether the user that the last request of a connection came from may send to a topic."""
        ...


def not_supported(code: int) -> WireError:
    """Return the refusal of a request code that no store serves."""
    return RefusedRequest(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {code} not supported")


class CommandTable:
    """Maps request codes to handlers. `receive` is called for every frame that arrives."""

    def __init__(
        self,
        classes: dict[str, RequestClass],
        known: KnownHeaders | None,
        door: Door | None,
        unknown: Callable[[int], WireError] = not_supported,
    ) -> None:
        """`known` remembers the binary headers of sends. With None every header is parsed in full. Without a door everybody may send everything.

        `unknown` returns the refusal of a request code without a handler.
        """
        self._classes = classes
        self._known = known
        self._door = door
        self._unknown = unknown
        self._handlers: dict[int, Handler] = {}
        self._oneway: dict[int, RequestClass] = {}
        self._quick: Quick | None = None

    def add_all(self, commands: Commands) -> None:
        """Add entries. A code has one handler."""
        for code, (class_name, handler) in commands.items():
            assert code not in self._handlers, f"two handlers for code {code}"
            assert class_name in self._classes, class_name
            self._handlers[int(code)] = handler
            if class_name not in BOUNDED_BEFORE:
                self._oneway[int(code)] = self._classes[class_name]

    def add_quick(self, quick: Quick, handler: Handler) -> None:
        """Offer sends (310) to `quick` first, unless `handler` is wrapped by something that must see each of them."""
        if self._handlers.get(RequestCode.SEND_MESSAGE_V2) == handler:
            self._quick = quick

    def without(self, codes: Iterable[int]) -> "CommandTable":
        """Return the same table without some codes."""
        table = CommandTable(self._classes, self._known, self._door, self._unknown)
        table._handlers = {code: handler for code, handler in self._handlers.items() if code not in codes}
        table._oneway, table._quick = self._oneway, self._quick
        return table

    def codes(self) -> list[int]:
        """Return the handled codes."""
        return sorted(self._handlers)

    def receive(self, peer: Peer, raw: RawFrame) -> None:
        """Handle one frame. The server answers what this raises: a refusal with its remark, a bug with code 1.

        An error of the disk is no bug: it is refused with code 1.
        """
        headers = None if raw.serialize_type == JSON else self._known
        known = None if headers is None else headers.find(raw.header)
        if self._door is not None and not self._is_admitted(self._door, peer, raw, known):
            return
        if headers is None:
            command = decode_command(raw)
        else:
            if known is not None and self._quick is not None and self._quick(peer, known, raw.body):
                return
            command = headers.read(raw, known)
        handler = self._handlers.get(command.code)
        if command.flag & FLAG_RESPONSE:
            return  # the answer to a request that nobody waits for any more
        if handler is None:
            raise self._unknown(command.code)
        if command.flag & FLAG_ONEWAY and command.code in self._oneway and self._is_flood(command.code):
            return
        try:
            reply = handler(peer, command)
        except OSError as error:
            _log.error("a request failed because the disk did", code=command.code, error=str(error))
            raise RefusedRequest(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}") from error
        if reply is not None and not command.flag & FLAG_ONEWAY:
            peer.send(reply)

    def _is_admitted(self, door: Door, peer: Peer, raw: RawFrame, known: "KnownSend | None") -> bool:
        """Whether to handle a frame. Raises as `Door.admit`."""
        return (known is not None and door.admits_known(peer, known, raw.body)) or door.admit(peer, raw)

    def _is_flood(self, code: int) -> bool:
        """Count a one-way request. True when this turn has carried out enough of its class."""
        requests = self._oneway[code]
        if not requests.oneway_in_turn:
            Turn.current().at_end(requests.end_turn)
        if requests.oneway_in_turn >= ONEWAY_PER_TURN_MAX:
            requests.oneway_dropped += 1
            return True
        requests.oneway_in_turn += 1
        return False
