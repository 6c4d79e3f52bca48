"""Extension points of a store: one class with a method per RocketMQ hook (docs/extensions.md).

The setting `extensions` names the extensions to load. Without one no request pays for them. Methods run in
the event loop, so they must be quick and must not block. What they raise is logged and counted, and the
request continues. Only a RefusedRequest raised before a request, send, pull or decision refuses it, with
its remark.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, cast

from broker_store.ports import InternalAppend
from gantry_chassis.named_classes import Kind, make_named
from gantry_chassis.start_refusal import StartRefused
from gantry_wire.errors import RefusedRequest

KIND = Kind("extension", "gantry.store_extensions", {"tracing": "broker_store.requests.tracing:SendTracing"})


class StoreView(NamedTuple):
    """What an extension may know and do."""

    broker_name: str
    cluster_name: str
    region: str
    address: str
    """host:port as advertised to clients."""
    now_ms: Callable[[], int]
    """Store time."""
    append: InternalAppend
    """Stores a message of the extension's own. Nobody waits for it; a full disk drops it."""


class Request(NamedTuple):
    """Any request, as received."""

    code: int
    remote: str
    """host:port of the client."""
    fields: Mapping[str, str]
    body: bytes
    arrived_ms: int
    """Store time."""


class Send(NamedTuple):
    """A send (10, 310) or a batch (320), not yet checked. `properties` are those of the message or of the batch."""

    request: Request
    producer_group: str
    topic: str
    queue_id: int
    """As requested. Below 0 the store chooses."""
    properties: Mapping[str, str]
    is_batch: bool


class Pull(NamedTuple):
    """A pull (11, 361), not yet checked."""

    request: Request
    consumer_group: str
    topic: str
    queue_id: int
    offset: int


class Decision(NamedTuple):
    """A producer's commit or rollback of a half message (37), not yet checked."""

    request: Request
    producer_group: str
    message_id: str
    is_commit: bool


class Reply(NamedTuple):
    """The answer to a request."""

    code: int
    remark: str | None
    fields: Mapping[str, str]


class Stored(NamedTuple):
    """Messages of one queue that became readable together."""

    topic: str
    queue_id: int
    first_offset: int
    messages: int


class Extension:
    """Base class of extensions: override what you need. A method that is not overridden costs nothing."""

    def start(self, store: StoreView) -> None:
        """Start. Called once before the store serves."""

    def close(self) -> None:
        """Stop. Called once when the store stops."""

    def before_request(self, request: Request) -> None:
        """Inspect any request before it is handled (RPCHook.doBeforeRequest). May refuse."""

    def after_request(self, request: Request, reply: Reply) -> None:
        """Inspect its answer (RPCHook.doAfterResponse). Never called for one-way requests."""

    def before_send(self, send: Send) -> None:
        """Inspect a send before it is checked (SendMessageHook). May refuse."""

    def after_send(self, send: Send, reply: Reply) -> None:
        """Inspect a send's answer. Never called for one-way sends."""

    def before_pull(self, pull: Pull) -> None:
        """Inspect a pull before it is checked (ConsumeMessageHook). May refuse."""

    def after_pull(self, pull: Pull, reply: Reply) -> None:
        """Inspect a pull's answer, also when it was held."""

    def before_decision(self, decision: Decision) -> None:
        """Inspect the end of a transaction (TransactionalMessageService). A refusal leaves the half undecided."""

    def on_stored(self, stored: Stored) -> None:
        """Inspect readable messages, which are as durable as their topic promises (the store plugin's put)."""

    def on_half_given_up(self, stored: Stored) -> None:
        """Inspect half messages put aside because no producer decided them (check listener's resolveDiscardMsg)."""


Method = Callable[..., None]


class Failures(Protocol):
    """Records failures of extensions."""

    def __call__(self, extension: str, point: str, error: Exception) -> None:
        """Log and count one failure."""
        ...


@dataclass(slots=True)
class Extensions:
    """The extensions of one store."""

    all: list[Extension] = field(default_factory=list[Extension])
    note_failure: Failures = field(default=lambda extension, point, error: None)  # noqa: ARG005 - silent by default

    def start(self, store: StoreView) -> None:
        """Start all. Raises StartRefused when one fails: the store must not run without a configured extension."""
        for extension in self.all:
            try:
                extension.start(store)
            except Exception as error:
                name = type(extension).__name__
                raise StartRefused(f"the extension {name} cannot start: {error!r}") from error

    def close(self) -> None:
        """Stop all."""
        self.notify(self.having("close"), "close")

    def having(self, point: str) -> list[Extension]:
        """Return the extensions that override a method."""
        base = getattr(Extension, point)
        return [extension for extension in self.all if getattr(type(extension), point) is not base]

    def notify(self, extensions: Iterable[Extension], point: str, *event: object) -> None:
        """Call a method of each. Only a RefusedRequest passes through, where refusing is allowed."""
        for extension in extensions:
            method = cast("Method", getattr(extension, point))
            try:
                method(*event)
            except RefusedRequest as refusal:
                if point.startswith("before_"):
                    raise
                self.note_failure(type(extension).__name__, point, refusal)
            except Exception as error:  # noqa: BLE001 - an extension never breaks a request
                self.note_failure(type(extension).__name__, point, error)


def load_extensions(names: str) -> list[Extension]:
    """Create the named extensions, separated by commas: entry points, built-in ones, or `module:Class`.

    Raises StartRefused.
    """
    return [_checked(name, made) for name, made in make_named(KIND, names)]


def _checked(name: str, made: object) -> Extension:
    if not isinstance(made, Extension):
        raise StartRefused(f"the extension {name!r} is no broker_store.requests.extensions.Extension")
    return made
