"""Connects extensions to the command table and to the readers, only where an extension listens."""

from collections.abc import Callable, Sequence
from typing import Any

from broker_store.commit.visible.dispatch import Readers
from broker_store.ports import Commands, Handler, Peer
from broker_store.process.foundation import Surroundings
from broker_store.process.parts.sending import Sending
from broker_store.process.passing_peer import PassingPeer
from broker_store.requests.extensions import (
    Decision,
    Extension,
    Extensions,
    Pull,
    Reply,
    Request,
    Send,
    Stored,
    StoreView,
    load_extensions,
)
from gantry_chassis.logs.structured import get_logger
from gantry_wire.codes import RequestCode
from gantry_wire.errors import WireError
from gantry_wire.frames.command import Command, decode_command
from gantry_wire.frames.frame_stream import FRAME_HEAD, RawFrame
from gantry_wire.headers.messages import EndTransactionHeader, PullHeader, SendHeader, SendHeaderV2
from gantry_wire.messages.properties import parse_properties
from gantry_wire.names import TRANS_CHECK_MAX_TIME_TOPIC

SENDS = frozenset({RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE})
PULLS = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})
DECISIONS = frozenset({RequestCode.END_TRANSACTION})
COMMIT = 8
_HEADER_BYTES = 0xFFFFFF

Describe = Callable[[Request, Command], Any]


_log = get_logger()


class _Point:
    """The extensions that listen before and after one kind of request, and their event."""

    def __init__(self, extensions: Extensions, name: str, describe: Describe) -> None:
        self.name = name
        self.describe = describe
        self.before = extensions.having(f"before_{name}")
        self.after = extensions.having(f"after_{name}") if hasattr(Extension, f"after_{name}") else []

    def __bool__(self) -> bool:
        return bool(self.before or self.after)


class Hooks:
    """Wraps what extensions listen to, and leaves everything else unchanged."""

    def __init__(self, extensions: Extensions, now_ms: Callable[[], int]) -> None:
        self._extensions = extensions
        self._now_ms = now_ms
        self._any = _Point(extensions, "request", lambda request, _command: request)
        self._points = (
            (SENDS, _Point(extensions, "send", _describe_send)),
            (PULLS, _Point(extensions, "pull", _describe_pull)),
            (DECISIONS, _Point(extensions, "decision", _describe_decision)),
        )

    def close(self) -> None:
        """Stop the extensions."""
        self._extensions.close()

    def commands(self, commands: Commands) -> Commands:
        """Return the table with hooks around the entries that have listeners."""
        return {code: (name, self._around(code, handler)) for code, (name, handler) in commands.items()}

    def readers(self, readers: Readers) -> Readers:
        """Return the readers, with the extensions that listen to stored messages."""
        stored = self._extensions.having("on_stored")
        half_watchers = self._extensions.having("on_half_given_up")
        return (
            _Observed(readers, self._extensions, stored, half_watchers)
            if stored or half_watchers
            else readers
        )

    def _around(self, code: int, handler: Handler) -> Handler:
        points = [point for codes, point in self._points if code in codes and point]
        points = [*([self._any] if self._any else []), *points]
        return self._watched(points, handler) if points else handler

    def _watched(self, points: list[_Point], handler: Handler) -> Handler:
        extensions, now_ms = self._extensions, self._now_ms

        def watched(peer: Peer, command: Command) -> bytes | None:
            described = _describe_all(points, _request(peer, command, now_ms()), command)
            for point, event in described:
                extensions.notify(point.before, f"before_{point.name}", event)
            listening = [(point, event) for point, event in described if point.after]
            if not listening or command.is_oneway:
                return handler(peer, command)

            def after(reply: Reply) -> None:
                for point, event in listening:
                    extensions.notify(point.after, f"after_{point.name}", event, reply)

            watch = _Watch(peer, command.opaque, after)
            try:
                frame = handler(watch, command)
            except WireError as error:
                after(Reply(error.code, str(error), getattr(error, "fields", None) or {}))
                raise
            if frame is not None:
                watch.look(frame)
            return frame

        return watched


class _Watch(PassingPeer):
    """A peer that reports the answer to one request; otherwise it behaves like the peer."""

    def __init__(self, peer: Peer, opaque: int, after: Callable[[Reply], None]) -> None:
        super().__init__(peer)
        self._opaque = opaque
        self._after: Callable[[Reply], None] | None = after

    def send(self, data: bytes) -> None:
        self.look(data)
        self._peer.send(data)

    def send_parts(self, parts: list[bytes]) -> None:
        self.look(parts[0])
        self._peer.send_parts(parts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._peer, name)

    def look(self, frame: bytes) -> None:
        """Report a frame if it is the answer. Pushes and later answers pass."""
        after = self._after
        if after is None:
            return
        _, mark = FRAME_HEAD.unpack_from(frame)
        size = mark & _HEADER_BYTES
        command = decode_command(RawFrame(mark >> 24, frame[FRAME_HEAD.size : FRAME_HEAD.size + size], b""))
        if command.is_response and command.opaque == self._opaque:
            self._after = None
            after(Reply(command.code, command.remark, command.ext))


class _Observed:
    """Readers with extensions: arrivals must always be reported."""

    def __init__(
        self,
        readers: Readers,
        extensions: Extensions,
        stored: list[Extension],
        half_watchers: list[Extension],
    ) -> None:
        self._readers = readers
        self._extensions = extensions
        self._stored = stored
        self._half_watchers = half_watchers

    @property
    def held_count(self) -> int:
        return self._readers.held_count + 1

    def arrived(self, topic: str, queue_id: int, first_offset: int, tags_codes: Sequence[int]) -> None:
        self._readers.arrived(topic, queue_id, first_offset, tags_codes)
        event = Stored(topic, queue_id, first_offset, len(tags_codes))
        self._extensions.notify(self._stored, "on_stored", event)
        if topic == TRANS_CHECK_MAX_TIME_TOPIC:
            self._extensions.notify(self._half_watchers, "on_half_given_up", event)

    def answer_arrivals(self) -> None:
        self._readers.answer_arrivals()


def _describe_all(points: list[_Point], request: Request, command: Command) -> list[tuple[_Point, Any]]:
    """Describe a request to each point.

    A request whose header cannot be parsed is left to its handler, which reports that.
    """
    try:
        return [(point, point.describe(request, command)) for point in points]
    except WireError:
        return []


def _request(peer: Peer, command: Command, now_ms: int) -> Request:
    host, port = peer.remote
    return Request(command.code, f"{host}:{port}", command.ext, command.body, now_ms)


def _describe_send(request: Request, command: Command) -> Send:
    is_long = command.code == RequestCode.SEND_MESSAGE
    header = command.read(SendHeader if is_long else SendHeaderV2)
    properties = parse_properties(header.properties or "")
    is_batch = command.code == RequestCode.SEND_BATCH_MESSAGE or bool(header.batch)
    return Send(request, header.producer_group, header.topic, header.queue_id, properties, is_batch)


def _describe_pull(request: Request, command: Command) -> Pull:
    header = command.read(PullHeader)
    return Pull(request, header.consumer_group, header.topic, header.queue_id, header.queue_offset)


def _describe_decision(request: Request, command: Command) -> Decision:
    header = command.read(EndTransactionHeader)
    return Decision(request, header.producer_group, header.msg_id, header.commit_or_rollback == COMMIT)


def build_hooks(around: Surroundings, sending: Sending) -> Hooks:
    """Return the hooks of the configured extensions, started. Raises StartRefused."""
    settings = around.settings
    failed = around.metrics.counters(
        "gantry_store_extension_failures", "Exceptions raised by extensions.", ("extension", "point")
    )

    def note_failure(extension: str, point: str, error: Exception) -> None:
        failed.labels(extension, point).add()
        _log.error(
            "an extension failed; the request continues", extension=extension, point=point, reason=repr(error)
        )

    extensions = Extensions(load_extensions(settings.extensions), note_failure)
    extensions.start(
        StoreView(
            settings.broker_name, settings.cluster_name, settings.region, around.address, around.now_ms,
            sending.internal.append,
        )
    )  # fmt: skip
    return Hooks(extensions, around.now_ms)
