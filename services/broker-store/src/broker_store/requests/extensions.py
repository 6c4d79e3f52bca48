"""What others may add to a store: one class with methods for each point that RocketMQ has hooks for (docs/extensions.md).

An extension is named in the setting `extensions`; nothing is loaded that is not named there, and without one no request pays for
it. Its methods run in the event loop, so they must be quick and must not block. What they raise is logged and counted, and the
request goes on; only a RefusedRequest raised before a request, a send, a pull or a decision refuses it, in its words.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, NamedTuple, Protocol, cast

from broker_store.ports import InternalAppend
from gantry_chassis.process import StartRefused
from gantry_wire.errors import RefusedRequest

ENTRY_POINTS = "gantry.store_extensions"
"""Group of entry points under which packages offer extensions."""
BUILT_IN = {"tracing": "broker_store.requests.tracing:SendTracing"}


class StoreView(NamedTuple):
    """What an extension may know and do."""

    broker_name: str
    cluster_name: str
    region: str
    address: str
    """host:port that clients are told."""
    now_ms: Callable[[], int]
    """Store time."""
    append: InternalAppend
    """Stores a message of the extension's own; nobody waits for it, and a full disk drops it."""


class Request(NamedTuple):
    """Any request, as it came."""

    code: int
    remote: str
    """host:port of the client."""
    fields: Mapping[str, str]
    body: bytes
    arrived_ms: int
    """Store time."""


class Send(NamedTuple):
    """A send (10, 310) or a batch (320), not yet checked. `properties` are those of the message, or of the batch."""

    request: Request
    producer_group: str
    topic: str
    queue_id: int
    """As asked for: below 0 the store chooses."""
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
    """What a request was answered."""

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
    """Base of all extensions: override what is needed. A method that is not overridden costs nothing."""

    def start(self, store: StoreView) -> None:
        """Begin: called once before the store serves."""

    def close(self) -> None:
        """End: called once when the store stops."""

    def before_request(self, request: Request) -> None:
        """See any request before it is handled (RPCHook.doBeforeRequest). May refuse."""

    def after_request(self, request: Request, reply: Reply) -> None:
        """See its answer (RPCHook.doAfterResponse); never called for one-way requests."""

    def before_send(self, send: Send) -> None:
        """See a send before it is checked (SendMessageHook). May refuse."""

    def after_send(self, send: Send, reply: Reply) -> None:
        """See a send's answer; never called for one-way sends."""

    def before_pull(self, pull: Pull) -> None:
        """See a pull before it is checked (ConsumeMessageHook). May refuse."""

    def after_pull(self, pull: Pull, reply: Reply) -> None:
        """See a pull's answer, after it was held too."""

    def before_decision(self, decision: Decision) -> None:
        """See the end of a transaction (TransactionalMessageService). May refuse: the half stays undecided."""

    def on_stored(self, stored: Stored) -> None:
        """See what became readable, as durable as its topic promises (the store plugin's put)."""

    def on_half_given_up(self, stored: Stored) -> None:
        """See half messages that nobody decided and that were put aside (check listener's resolveDiscardMsg)."""


Method = Callable[..., None]


class Failures(Protocol):
    """Where failures of extensions are noted."""

    def __call__(self, extension: str, point: str, error: Exception) -> None:
        """Log and count one."""
        ...


@dataclass(slots=True)
class Extensions:
    """The extensions of one store."""

    all: list[Extension] = field(default_factory=list[Extension])
    note_failure: Failures = field(default=lambda extension, point, error: None)  # noqa: ARG005 - silent by default

    def start(self, store: StoreView) -> None:
        """Start all. Raises StartRefused when one cannot: a store without an extension it was told to have is another one."""
        for extension in self.all:
            try:
                extension.start(store)
            except Exception as error:
                name = type(extension).__name__
                raise StartRefused(f"the extension {name} cannot start: {error!r}") from error

    def close(self) -> None:
        """End all."""
        self.notify(self.having("close"), "close")

    def having(self, point: str) -> list[Extension]:
        """Return those that override a method."""
        base = getattr(Extension, point)
        return [extension for extension in self.all if getattr(type(extension), point) is not base]

    def notify(self, extensions: Iterable[Extension], point: str, *event: object) -> None:
        """Call a method of each. A RefusedRequest passes through where refusing is allowed; nothing else does."""
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
    """Make the extensions named, separated by commas: entry points, built-in ones, or `module:Class`. Raises StartRefused."""
    return [_make(name) for name in (part.strip() for part in names.split(",")) if name]


def _make(name: str) -> Extension:
    try:
        kind = _find(name)
        extension = kind()
    except Exception as error:
        raise StartRefused(f"the extension {name!r} cannot be loaded: {error!r}") from error
    if not isinstance(extension, Extension):
        raise StartRefused(f"the extension {name!r} is no broker_store.requests.extensions.Extension")
    return extension


def _find(name: str) -> Any:
    place = BUILT_IN.get(name, name)
    module, separator, attribute = place.partition(":")
    if separator:
        return getattr(import_module(module), attribute)
    for entry in entry_points(group=ENTRY_POINTS, name=name):
        return entry.load()
    raise LookupError(f"no entry point {name!r} in the group {ENTRY_POINTS}")
