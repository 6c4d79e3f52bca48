"""A user's listener function, and how to call it: in the loop, as a coroutine, or in a thread. Independent of queues."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum, auto
from types import GenericAlias
from typing import Any, TypeAlias, TypeVar

from gantrymq.consumer.retrying.outcomes import ConsumeContext, ConsumeResult
from gantrymq.message import ReceivedMessage

Answer: TypeAlias = ConsumeResult | None
"""The result of a listener."""
AnswerLater: TypeAlias = Coroutine[Any, Any, Answer]
MessageListener: TypeAlias = (
    Callable[[list[ReceivedMessage]], AnswerLater]
    | Callable[[list[ReceivedMessage], ConsumeContext], AnswerLater]
    | Callable[[list[ReceivedMessage]], Answer]
    | Callable[[list[ReceivedMessage], ConsumeContext], Answer]
)
"""Gets messages of one queue, in order; with a second parameter also a ConsumeContext."""
OneMessageListener: TypeAlias = (
    Callable[[ReceivedMessage], AnswerLater]
    | Callable[[ReceivedMessage, ConsumeContext], AnswerLater]
    | Callable[[ReceivedMessage], Answer]
    | Callable[[ReceivedMessage, ConsumeContext], Answer]
)
"""Gets one message; with a second parameter also a ConsumeContext."""
ListenerT = TypeVar("ListenerT", bound=MessageListener | OneMessageListener)


class Way(Enum):
    """How a listener is called."""

    COROUTINE = auto()
    LOOP = auto()
    """A function that never waits, called between two turns of the loop."""
    THREAD = auto()


@dataclass(slots=True, frozen=True)
class Listener:
    """A user's function and how to call it."""

    function: Callable[..., Any]
    way: Way
    wants_context: bool

    def call(self, messages: list[ReceivedMessage], context: ConsumeContext | None) -> Any:
        """Call the function with the arguments it takes."""
        return self.function(messages, context) if self.wants_context else self.function(messages)


def examine(function: Callable[..., Any], *, quick: bool, takes_one: bool = False) -> Listener:
    """Return how to call a listener. TypeError if it takes no messages, ValueError if `quick` is invalid for it."""
    if not callable(function):
        raise TypeError(f"a listener is a function of messages, not {type(function).__name__}")
    is_coroutine = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - a callable object with an async __call__
    )
    if quick and is_coroutine:
        raise ValueError("quick is for plain functions; a coroutine runs in the loop anyway")
    way = Way.COROUTINE if is_coroutine else Way.LOOP if quick else Way.THREAD
    wants_context = _wants_context(function)
    if takes_one:
        function = _of_one_with_context(function) if wants_context else _of_one(function)
    return Listener(function, way, wants_context)


def takes_one_message(function: Callable[..., Any]) -> bool:
    """Whether the type of a function's first parameter says that it takes one message. TypeError for an invalid type."""
    try:
        first = next(iter(inspect.signature(function).parameters.values()), None)
    except (TypeError, ValueError):  # a built-in without a signature, or not a function: `examine` decides
        return False
    said: Any = first.annotation if first is not None else inspect.Parameter.empty
    if isinstance(said, str):
        said = _resolved(function, said)
    if isinstance(said, str):  # a name that only the type checker imports
        return said.rpartition(".")[2] == ReceivedMessage.__name__
    if isinstance(said, type) and not isinstance(said, GenericAlias):
        if issubclass(said, ReceivedMessage):
            return True
        if said is not inspect.Parameter.empty and not issubclass(list, said):
            words = f"a listener takes a ReceivedMessage or a list[ReceivedMessage], not {said.__name__}"
            raise TypeError(f"{words}: {function!r}")
    return False


def _resolved(function: Callable[..., Any], said: str) -> Any:
    """Return the type that a parameter's annotation names, or its text if it cannot be found."""
    code = inspect.unwrap(function)
    names: dict[str, Any] = getattr(code, "__globals__", None) or {}
    try:
        return eval(said, names)  # noqa: S307 - as typing.get_type_hints reads it: the program's own text
    except Exception:  # noqa: BLE001 - the text may raise anything, for example for names that are not imported
        return said


def _of_one(function: Callable[..., Any]) -> Callable[..., Any]:
    def of_list(messages: list[ReceivedMessage]) -> Any:
        return function(messages[0])

    return of_list


def _of_one_with_context(function: Callable[..., Any]) -> Callable[..., Any]:
    def of_list(messages: list[ReceivedMessage], context: ConsumeContext) -> Any:
        return function(messages[0], context)

    return of_list


def _wants_context(function: Callable[..., Any]) -> bool:
    try:
        signature = inspect.signature(function)
    except ValueError:  # a built-in without a signature, such as list.append
        return False
    try:
        signature.bind(None, None)
    except TypeError:
        pass
    else:
        return _has_second(signature)
    try:
        signature.bind(None)
    except TypeError as error:
        raise TypeError(
            f"a listener takes messages, and perhaps a ConsumeContext; {function!r} takes {signature}"
        ) from error
    return False


def _has_second(signature: inspect.Signature) -> bool:
    """Whether the second parameter takes the context: one with a default is the user's own."""
    positional = [
        each
        for each in signature.parameters.values()
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    return len(positional) > 1 and positional[1].default is inspect.Parameter.empty


IN_CALL_OF: ContextVar[Listener | None] = ContextVar("gantry listener", default=None)
"""The listener for which code runs: set for its calls, and inherited by tasks that they start."""


class Waits:
    """A started coroutine that waits for something; `await` continues it.

    Its first step ran in the worker's task instead of its own, which is usually all there is to do: a task per
    call would cost more than the call.
    """

    __slots__ = ("_awaited", "_coroutine")

    def __init__(self, begun: Coroutine[Any, Any, Any], awaited: Any) -> None:
        self._coroutine = begun
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, Any]:
        return _continue(self._coroutine, self._awaited)


def begin(call: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its first wait: return its result, or a Waits."""
    try:
        awaited = call.send(None)
    except StopIteration as stop:
        return stop.value
    return Waits(call, awaited)


def _continue(begun: Coroutine[Any, Any, Any], awaited: Any) -> Generator[Any, Any, Any]:
    """Connect a started coroutine to the task that now awaits it: pass values and exceptions in both directions."""
    try:
        while True:
            try:
                sent = yield awaited
            except GeneratorExit:
                begun.close()
                raise
            except BaseException as error:  # noqa: BLE001 - a cancellation, most often: the coroutine decides
                awaited = begun.throw(error)
            else:
                awaited = begun.send(sent)
    except StopIteration as stop:
        return stop.value
