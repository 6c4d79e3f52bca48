"""Validators: code of an installation that may refuse what access control allows. It can never allow what access control refuses.

The setting `access_validators` names classes (docs/extensions.md). Each is asked about every request that users and policies allow, over
remoting and HTTP. It refuses by raising: whatever it raises, and anything but None that it returns, refuses the request.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, cast

from gantry_chassis.logs.structured import get_logger
from gantry_chassis.metrics import Metrics
from gantry_chassis.named_classes import Kind, make_named
from gantry_chassis.start_refusal import StartRefused
from gantry_guard.audit import Asked
from gantry_wire.errors import RefusedRequest

__all__ = ["AccessValidator", "Asked", "Refusal", "Validators", "load_validators"]

KIND = Kind("access validator", "gantrymq.access")
REASON = "validator"
"""Of a validator's refusals, in counters and the audit log; the rule is the validator's name."""
WORDS = "an access validator refused the request."
WORDS_CHARS_MAX = 1024
"""A longer remark of a validator is cut."""
LOG_SECONDS = 10.0
"""Failures of validators are logged at most this often; the counter has all."""

_log = get_logger()


class AccessValidator(Protocol):
    """What the setting `access_validators` names: a class that is made without arguments, once per process."""

    def validate(self, asked: Asked) -> None:
        """Return None to let a request pass that access control allows. Raise to refuse it.

        The remark of a RefusedRequest is shown to the client; other exceptions are not, and count as failures. Runs in the event loop of
        the service: it must not block, and it cannot be a coroutine function.
        """
        ...


class Refusal(NamedTuple):
    """A validator refuses a request."""

    words: str
    """For the client."""
    validator: str
    """Its name in the setting."""


class Validators:
    """The validators of one process, in the order of the setting."""

    def __init__(
        self,
        named: Sequence[tuple[str, AccessValidator]],
        metrics: Metrics,
        steady: Callable[[], float],
    ) -> None:
        """`steady`: seconds of a clock that never steps."""
        self._named, self._steady = tuple(named), steady
        self._failures = metrics.counters(
            "access_validator_failures",
            "Requests refused because an access validator failed.",
            ("validator",),
        )
        self._logged_s = -LOG_SECONDS

    def refusal(self, asked: Asked) -> Refusal | None:
        """Ask every validator about a request that access control allows, until one refuses it. None if all let it pass."""
        for name, validator in self._named:
            try:
                returned = cast("object", validator.validate(asked))
            except RefusedRequest as refused:
                return Refusal(str(refused.remark)[:WORDS_CHARS_MAX], name)
            except BaseException as error:  # noqa: BLE001 - whatever it raises refuses, and ends neither the connection nor the process
                self._failed(name, _shown(error))
                return Refusal(WORDS, name)
            if returned is not None:  # such as False, or a coroutine: it was meant to refuse, or has not run
                if inspect.iscoroutine(returned):
                    returned.close()
                self._failed(name, f"returned {type(returned).__name__} instead of None")
                return Refusal(WORDS, name)
        return None

    def _failed(self, name: str, reason: str) -> None:
        self._failures.labels(name).add()
        now_s = self._steady()
        if now_s - self._logged_s >= LOG_SECONDS:
            self._logged_s = now_s
            _log.error("an access validator failed: the request is refused", validator=name, reason=reason)


def _shown(error: BaseException) -> str:
    try:
        return repr(error)
    except Exception:  # noqa: BLE001 - it is code of an installation, too
        return type(error).__name__


def load_validators(names: str, metrics: Metrics, steady: Callable[[], float]) -> Validators | None:
    """Return the named validators, separated by commas: entry points or `module:Class`. None if there are none. Raises StartRefused."""
    named = [(name, _checked(name, made)) for name, made in make_named(KIND, names)]
    return Validators(named, metrics, steady) if named else None


def _checked(name: str, made: object) -> AccessValidator:
    """Return an object as a validator. One that would fail at each request must not start. Raises StartRefused."""
    validate = getattr(made, "validate", None)
    if not callable(validate):
        raise StartRefused(f"the access validator {name!r} has no method validate")
    if inspect.iscoroutinefunction(validate):
        raise StartRefused(
            f"validate of the access validator {name!r} is a coroutine function: nobody awaits it"
        )
    try:
        inspect.signature(validate).bind(Asked("", "", ""))
    except TypeError as error:
        raise StartRefused(
            f"validate of the access validator {name!r} does not take one request: {error}"
        ) from error
    return cast("AccessValidator", made)
