"""What a store asks of its group's register, and what may come back.

A register is a list of records with one operation: append one, if the newest has the version that the writer names. All that follows from
it (who leads, who is in sync) is decided by its callers. Reads may be stale, replies may be lost: rules that need more do not work.
"""

import asyncio
from typing import NamedTuple, Protocol

from broker_store.replication.register.record import Registered


class RegisterAway(Exception):
    """The register does not answer now: no majority, an election, a broken connection. Repeat later; nothing is lost by waiting."""


class RegisterBehind(Exception):
    """The register answers with less than this store has seen. Act on none of it.

    A deposed leader of the register answers so for some seconds. A register that keeps answering so has lost records, or is another
    one: an operator rebuilds it from the highest version that the stores remember.
    """

    def __init__(self, version: int, known: int) -> None:
        """Take the version that was read, and the higher one that this store knows."""
        super().__init__(
            f"the register says version {version}, and this store knows version {known}. If that lasts longer than half a minute, the"
            f" register has lost records: {REBUILD}"
        )
        self.version, self.known = version, known


class RegisterUnusable(Exception):
    """The register is missing, empty, damaged or set up in a way that may lose records. An operator decides."""


REBUILD = (
    "stop the stores of this broker and rebuild the register from the highest version that any of them remembers or promised: with"
    " ./gantry replicas rebuild-register BROKER, on several machines with python -m broker_store.process.rebuild_register"
    " (docs/replication.md); never with ha_bootstrap, which would forget what was acknowledged"
)


class Written(NamedTuple):
    """The record is in the register, for good. A newer one may be there too."""

    version: int


class Refused(NamedTuple):
    """Another record has the place, for good: this write never takes effect. `stands` is the newest record that was seen."""

    stands: Registered


class Unknown(NamedTuple):
    """The record may be in the register, or arrive there later. Repeat the same write, with the same nonce, until one of the others comes."""

    why: str


Outcome = Written | Refused | Unknown


class KnownVersion:
    """What every register keeps: the highest version that its store knows."""

    def __init__(self, remembered: int) -> None:
        """Take the version that the store remembers, 0 if none."""
        self._known = remembered

    @property
    def known(self) -> int:
        """See `Register.known`."""
        return self._known

    def learn(self, version: int) -> None:
        """See `Register.learn`."""
        self._known = max(self._known, version)

    def accept(self, newest: Registered) -> Registered:
        """Return a record that was read, and learn its version. Raises RegisterBehind if the store knows a newer one."""
        if newest.version < self._known:
            raise RegisterBehind(newest.version, self._known)
        self.learn(newest.version)
        return newest


class Register(Protocol):
    """The register of one broker group, as one store uses it. Calls may overlap."""

    @property
    def known(self) -> int:
        """The highest version that this store has seen. What is older is refused."""
        ...

    def learn(self, version: int) -> None:
        """Record that this store saw `version`, or its leader named it: what is older is refused from now on."""
        ...

    async def read(self) -> Registered:
        """Return a record with a version of at least `known`. A newer one may be there: only a write proves that there is none.

        Raises RegisterAway, RegisterBehind, RegisterUnusable.
        """
        ...

    async def write(self, expected_version: int, new: Registered) -> Outcome:
        """Append `new` if `expected_version`, at least 1, is the newest. `new.version` is the one after it.

        A repeated write with the same nonce takes effect once. Raises RegisterUnusable; ValueError if the record belongs
        elsewhere or breaks a bound.
        """
        ...

    async def bootstrap(self, first: Registered) -> Outcome:
        """Make the register of a new group, with version 1. Only for `ha_bootstrap`. Refused if there are records already.

        Raises RegisterUnusable if there once were some, or a stream of that name is no register; RegisterAway.
        """
        ...

    async def wait_newer(self, version: int, seconds_max: float) -> Registered | None:
        """Return a record newer than `version`, or None after `seconds_max`, also if the register did not answer meanwhile.

        Raises RegisterUnusable.
        """
        ...


def check_place(expected_version: int, new: Registered, group: str) -> None:
    """Raise ValueError if a record is not of this group, or not the one after `expected_version`."""
    if new.group != group:
        raise ValueError(f"a record of {new.group} does not belong in the register of {group}")
    if new.version != expected_version + 1:
        raise ValueError(f"version {new.version} does not follow version {expected_version}")


def outcome_of(
    new: Registered, newest: Registered | None, at_its_place: Registered | None, kept: int
) -> Outcome:
    """Return what became of a write whose reply was lost or negative.

    `newest` is the newest record that was read, maybe a stale one; `at_its_place` the record with the version of `new`, None if it was
    not found; `kept` says how many records the register keeps. A found record is final: stale reads only lack records. One that is not
    found is a stale read, too, unless the register no longer keeps it.
    """
    if newest is None or newest.version < new.version:
        return Unknown("neither this record nor another one is there yet")
    if at_its_place is None and newest.version < new.version + kept:
        return Unknown("a stale read does not show which record is there")
    if at_its_place is not None and at_its_place.nonce == new.nonce:
        return Written(new.version)
    return Refused(newest)


async def poll_newer(
    register: Register, version: int, seconds_max: float, poll_seconds: float
) -> Registered | None:
    """Read until a record is newer than `version`. Return None after `seconds_max`. Raises RegisterUnusable."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds_max
    while True:
        try:
            read = await register.read()
        except (RegisterAway, RegisterBehind):
            read = None
        if read is not None and read.version > version:
            return read
        left = until - loop.time()
        if left <= 0:
            return None
        await asyncio.sleep(min(poll_seconds, left))
