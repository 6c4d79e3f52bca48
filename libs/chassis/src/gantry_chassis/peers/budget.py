"""Bounds what clients make a process hold: bytes of incomplete requests and unread answers, and descriptors.

One budget per process, shared by all its ports. Pure: connections report their bytes, and a callback closes them.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from gantry_chassis.metrics import Metrics

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """Bounds of a budget."""

    bytes_max: int = 512 * MIB
    address_bytes_max: int = 320 * MIB
    """Clients of one machine share an address: allows twenty incomplete requests of 16 MiB."""
    descriptors_max: int = 1 << 30
    """Connections with this descriptor number or a higher one are refused."""


class Account:
    """The bytes held for one connection in one direction."""

    __slots__ = ("_budget", "address", "cut", "held", "is_closed", "what")

    def __init__(self, budget: "Budget", address: str, what: str, cut: Callable[[str], None]) -> None:
        self._budget = budget
        self.address, self.what, self.cut = address, what, cut
        self.held = 0
        self.is_closed = False

    def hold(self, size: int) -> None:
        """Set the bytes held now.

        Growth beyond a limit closes the connection that has held its bytes longest, perhaps this one.
        """
        if size != self.held and not self.is_closed:
            self._budget.change(self, size)

    def close(self) -> None:
        """Release everything at once: the connection is closed."""
        held = self.held
        self.hold(0)
        self.is_closed = True
        if held:
            self._budget.abandon(held)


class _Address:
    __slots__ = ("accounts", "held")

    def __init__(self) -> None:
        self.held = 0
        self.accounts: dict[Account, None] = {}
        """Accounts with bytes, the longest holder first."""


class Budget:
    """Bytes in total and by address. Counts and reports refusals."""

    def __init__(
        self,
        limits: BudgetLimits | None = None,
        on_refusal: Callable[[str, str], None] | None = None,
        abandoned: Callable[[int], None] | None = None,
    ) -> None:
        """Report every refusal to `on_refusal(peer, message)`.

        `abandoned(size)` is called for each MiB of bytes whose connections closed before they were used.
        """
        self.limits = limits or BudgetLimits()
        self.held = 0
        self._peak = 0
        self.refusals: Counter[str] = Counter()
        self._on_refusal = on_refusal
        self._abandoned = abandoned
        self._abandoned_bytes = 0
        self._addresses: dict[str, _Address] = {}

    def account(self, address: str, what: str, cut: Callable[[str], None]) -> Account:
        """Open an account for a connection from `address`.

        `cut(reason)` must close it and free its bytes; `what` describes them.
        """
        return Account(self, address, what, cut)

    def abandon(self, size: int) -> None:
        """Count bytes of a closed connection that were never used."""
        self._abandoned_bytes += size
        if self._abandoned is not None and self._abandoned_bytes >= MIB:
            self._abandoned(self._abandoned_bytes)
            self._abandoned_bytes = 0

    def has_descriptor(self, number: int) -> bool:
        """Whether a connection may use this descriptor number."""
        return number < self.limits.descriptors_max

    def descriptor_refusal(self) -> str:
        """Return why a connection without a descriptor is refused."""
        return (
            f"the {self.limits.descriptors_max} descriptors for connections are in use, the rest is reserved for files; "
            "try again later, or raise the limit of open files (ulimit -n)"
        )

    def refused(self, reason: str, peer: str, message: str) -> None:
        """Count and report a refused or closed connection; `reason` is one word."""
        self.refusals[reason] += 1
        if self._on_refusal is not None:
            self._on_refusal(peer, message)

    def change(self, account: Account, size: int) -> None:
        """Update an account; see `Account.hold`. An account that shrinks makes progress, so its time starts again."""
        place = self._addresses.get(account.address)
        if place is None:
            place = self._addresses[account.address] = _Address()
        growth = size - account.held
        if growth < 0:
            del place.accounts[account]
        if size:
            place.accounts[account] = None
        elif not place.accounts:
            del self._addresses[account.address]
        account.held = size
        place.held += growth
        self.held += growth
        if growth > 0:
            self._cut_oldest(account.address, place)
            self._peak = max(self._peak, self.held)

    def take_peak(self) -> int:
        """Return the most bytes held since the last call."""
        peak, self._peak = self._peak, self.held
        return peak

    def _cut_oldest(self, address: str, place: _Address) -> None:
        limits = self.limits
        while place.held > limits.address_bytes_max:
            self._cut(
                place, f"{place.held} bytes are held for {address}, at most {limits.address_bytes_max} may be"
            )
        while self.held > limits.bytes_max:
            fullest = max(self._addresses.values(), key=lambda one: one.held)
            self._cut(
                fullest, f"{self.held} bytes are held for all clients, at most {limits.bytes_max} may be"
            )

    def _cut(self, place: _Address, why: str) -> None:
        account = next(iter(place.accounts))
        message = f"{why}: this connection has held its part longest, {account.held} bytes of {account.what}"
        account.close()
        account.cut(message)


def show_budget(metrics: Metrics, prefix: str, budget: Budget) -> None:
    """Register the metrics of a budget."""
    metrics.gauge(
        f"{prefix}_peer_held_bytes",
        "Bytes held for clients: incomplete requests and unread answers.",
        lambda: budget.held,
    )
    metrics.counted(
        f"{prefix}_peers_refused",
        "Connections refused or closed, by reason.",
        lambda: {(reason,): count for reason, count in budget.refusals.items()},
        ("reason",),
    )
