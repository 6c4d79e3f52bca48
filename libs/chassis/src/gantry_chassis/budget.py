"""What a process holds for those that are connected to it: bytes that wait for the rest of a request, or for a reader. And descriptors.

One budget a process, shared by all its ports. Pure: connections report, and are told by a callback that they have to go.
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
    """Clients of one machine have one address: twenty requests of 16 MiB may be half there at once."""
    descriptors_max: int = 1 << 30
    """A connection whose descriptor has this number or a higher one is refused."""


class Account:
    """What is held for one connection, one way."""

    __slots__ = ("_budget", "address", "cut", "held", "is_closed", "what")

    def __init__(self, budget: "Budget", address: str, what: str, cut: Callable[[str], None]) -> None:
        self._budget = budget
        self.address, self.what, self.cut = address, what, cut
        self.held = 0
        self.is_closed = False

    def hold(self, size: int) -> None:
        """Say how many bytes are held now. Growth beyond a limit ends the connection that has held its part longest, this one perhaps."""
        if size != self.held and not self.is_closed:
            self._budget.change(self, size)

    def close(self) -> None:
        """Hold nothing any more: the connection is gone, and what it held is free at once."""
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
        """Those that hold something, the one that has held it longest first."""


class Budget:
    """Bytes in all and by address; and what was refused, which is counted and told here."""

    def __init__(
        self,
        limits: BudgetLimits | None = None,
        told: Callable[[str, str], None] | None = None,
        abandoned: Callable[[int], None] | None = None,
    ) -> None:
        """`told(peer, words)` hears of every refusal.

        `abandoned(size)` hears of bytes whose connections went before they were used, each time they are a MiB together.
        """
        self.limits = limits or BudgetLimits()
        self.held = 0
        self._peak = 0
        self.refusals: Counter[str] = Counter()
        self._told = told
        self._abandoned = abandoned
        self._abandoned_bytes = 0
        self._addresses: dict[str, _Address] = {}

    def account(self, address: str, what: str, cut: Callable[[str], None]) -> Account:
        """Open the account of a connection from `address`; `cut(words)` has to close it and to free what is held. `what` is that, in words."""
        return Account(self, address, what, cut)

    def abandon(self, size: int) -> None:
        """Note bytes that came to nothing: their connection is gone."""
        self._abandoned_bytes += size
        if self._abandoned is not None and self._abandoned_bytes >= MIB:
            self._abandoned(self._abandoned_bytes)
            self._abandoned_bytes = 0

    def has_descriptor(self, number: int) -> bool:
        """Whether a connection may have the descriptor of this number."""
        return number < self.limits.descriptors_max

    def descriptor_refusal(self) -> str:
        """Say why a connection is refused that may not have its descriptor."""
        return (
            f"the {self.limits.descriptors_max} descriptors for connections and files are in use, the others are kept for files; "
            "try again later, or raise the limit of open files (ulimit -n)"
        )

    def refused(self, reason: str, peer: str, words: str) -> None:
        """Count and tell that a connection was refused or closed; `reason` is one word."""
        self.refusals[reason] += 1
        if self._told is not None:
            self._told(peer, words)

    def change(self, account: Account, size: int) -> None:
        """Note what an account holds; see `Account.hold`. What shrinks makes progress: it counts as begun now."""
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
        """Return the most that was held since the last call."""
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
        words = f"{why}: this connection has held its part longest, {account.held} bytes of {account.what}"
        account.close()
        account.cut(words)


def show_budget(metrics: Metrics, prefix: str, budget: Budget) -> None:
    """Name what can be read of a budget."""
    metrics.gauge(
        f"{prefix}_peer_held_bytes",
        "Bytes held for clients: half requests, and answers that are not read.",
        lambda: budget.held,
    )
    metrics.counted(
        f"{prefix}_peers_refused",
        "Connections refused or closed, by reason.",
        lambda: {(reason,): count for reason, count in budget.refusals.items()},
        ("reason",),
    )
