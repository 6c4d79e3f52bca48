"""Codes 25 and 26: the broker's settings under RocketMQ's names, which of them may change at run time, and which part applies them.

Pure. Parts bind the keys they can change. Every other key is refused with a reason, never accepted without
effect.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from broker_store.config.config_files import DataVersionCounter
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.limits import BODY_BYTES_MAX

DIGITS_MAX = 19
"""Digits of a 64-bit number."""
BLACKLIST = frozenset({"brokerConfigPath", "rocketmqHome", "configBlackList"})
"""Keys that nobody may change remotely (RocketMQ's own list)."""


class Bounds(NamedTuple):
    """The least and the greatest value of a number."""

    low: int
    high: int


NUMBERS: Mapping[str, Bounds] = {
    "brokerPermission": Bounds(0, 6),
    "consumerFallbehindThreshold": Bounds(1 << 20, 1 << 50),
    "diskMaxUsedSpaceRatio": Bounds(10, 95),
    "fileReservedTime": Bounds(24, 24 * 3650),
    "maxMessageSize": Bounds(1024, BODY_BYTES_MAX),
    "maxTransferBytesOnMessageInMemory": Bounds(1024, 1 << 24),
    "sendThreadPoolQueueCapacity": Bounds(64, 1_000_000),
    "shortPollingTimeMills": Bounds(1, 60_000),
    "waitTimeMillsInSendQueue": Bounds(50, 60_000),
}
"""Every number that code 25 may change.

Anybody may send code 25, so what destroys messages or stops the service can only be set at a start.
"""

Change = Callable[[str], None]
"""Takes a new value as text. Raises ValueError with a message for an invalid one."""


class BrokerConfig:
    """All settings by RocketMQ's key."""

    def __init__(self, values: Mapping[str, str], version: DataVersionCounter) -> None:
        self._given = dict(values)
        self._values = dict(values)
        self._changes: dict[str, list[Change]] = {}
        self.version = version
        self.kept: dict[str, str] = {}
        """Changes at run time, now or before a restart, to be kept."""
        self.refused: dict[str, str] = {}
        """Kept changes that this version does not apply. Another one may: they are kept until somebody changes the setting."""

    def items(self) -> dict[str, str]:
        """Return every key with its current value, by name."""
        return dict(sorted(self._values.items()))

    def changeable(self) -> list[str]:
        """Return the keys that may change at run time."""
        return sorted(self._changes)

    def bind(self, key: str, change: Change) -> None:
        """Call `change` with new values of a key. Several parts may bind one key."""
        self._changes.setdefault(key, []).append(change)

    def bind_number(self, key: str, change: Callable[[int], None]) -> None:
        """Call `change` with new values of a number of NUMBERS, within its bounds."""
        if key not in NUMBERS:
            raise KeyError(f"{key} has no bounds")
        self.bind(key, partial(_hand_on, change))

    def update(self, changes: Mapping[str, str]) -> None:
        """Change settings: all, or none when one may not change. Raises RefusedRequest."""
        for key in changes:
            if key in BLACKLIST:
                raise RefusedRequest(
                    ResponseCode.NO_PERMISSION, f"Can not update config in black list: {key}"
                )
            if key not in self._changes:
                why = (
                    "cannot be changed while the broker runs: set it in broker.conf and restart"
                    if key in self._values
                    else "is not a setting of this broker"
                )
                raise RefusedRequest(ResponseCode.NO_PERMISSION, f"{key} {why}")
        self._check_bounds(changes)
        before = {key: self._values[key] for key in changes if key in self._values}
        try:
            self._apply(changes)
        except RefusedRequest:
            self._apply(before)
            raise
        self._values.update(changes)
        for _ in changes:
            self.version.bump()
        self.kept.update(changes)
        for key in changes:
            self.refused.pop(key, None)

    def restore(self, kept: Mapping[str, str]) -> dict[str, str]:
        """Apply kept changes. Returns, by key, why one was not applied: its bounds or its meaning may have changed."""
        why_not: dict[str, str] = {}
        for key, value in kept.items():
            try:
                self.update({key: value})
            except RefusedRequest as refusal:
                self.refused[key] = value
                why_not[key] = refusal.remark
        return why_not

    def forget_changes(self) -> None:
        """Give every changed setting the value of this start again."""
        given = {key: self._given[key] for key in self.kept if key in self._given}
        self._apply(given)
        self._values.update(given)
        self.kept.clear()
        self.refused.clear()

    def _check_bounds(self, changes: Mapping[str, str]) -> None:
        """Raise RefusedRequest for a number out of bounds. A start may set one outside, and it is restored unchecked."""
        for key, value in changes.items():
            if key in NUMBERS:
                try:
                    read_number(value, *NUMBERS[key])
                except ValueError as error:
                    raise _not_taken(key, value, error) from error

    def _apply(self, changes: Mapping[str, str]) -> None:
        for key, value in changes.items():
            try:
                for change in self._changes[key]:
                    change(value)
            except ValueError as error:
                raise _not_taken(key, value, error) from error


def read_switch(value: str) -> bool:
    """Parse a switch as Java writes it. Raises ValueError."""
    word = value.strip().lower()
    if word not in ("true", "false"):
        raise ValueError("write true or false")
    return word == "true"


def read_number(value: str, low: int, high: int) -> int:
    """Parse a number within bounds. Raises ValueError."""
    digits = value.strip()
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= DIGITS_MAX
    if not is_number or not low <= int(digits) <= high:
        raise ValueError(f"write a whole number from {low} to {high}")
    return int(digits)


def _hand_on(change: Callable[[int], None], value: str) -> None:
    change(int(value))


def _not_taken(key: str, value: str, error: ValueError) -> RefusedRequest:
    return RefusedRequest(ResponseCode.INVALID_PARAMETER, f"{key}={value[:64]}: {error}")
