"""The states of an item and the answer to a decision in each: the one table that code, tests and docs/protocol.md share.

waiting ──time──▶ due          waiting, due ──settled──▶ deciding ──its records are visible──▶ decided

deciding ──the batch is taken back, or a crash left not all of its records──▶ waiting, due

waiting, due, decided ──retention──▶ removed      (of an undecided item of a system queue: never)
"""

from enum import Enum

from gantry_wire.private_requests.settling import SettleItem, SettleStatus


class ItemState(Enum):
    """What the store knows of an item."""

    WAITING = "waiting"
    """Undecided, not due yet."""
    DUE = "due"
    """Undecided. An item without a time is always due."""
    DECIDING = "deciding"
    """Its records are placed in the log and not visible yet."""
    DECIDED = "decided"
    REMOVED = "removed"
    """Retention deleted its record."""
    ABSENT = "absent"
    """No message lies at that offset, or not at that position."""


class Ask(Enum):
    """What a request asks for an item."""

    DELIVER = "with outputs"
    FORCE = "with outputs, force"
    DROP = "without outputs"


ANSWERS: dict[ItemState, dict[Ask, str]] = {
    ItemState.WAITING: {
        Ask.DELIVER: SettleStatus.EARLY,
        Ask.FORCE: SettleStatus.SETTLED,
        Ask.DROP: SettleStatus.SETTLED,
    },
    ItemState.DUE: dict.fromkeys(Ask, SettleStatus.SETTLED),
    ItemState.DECIDING: dict.fromkeys(Ask, SettleStatus.ALREADY),
    ItemState.DECIDED: dict.fromkeys(Ask, SettleStatus.ALREADY),
    ItemState.REMOVED: dict.fromkeys(Ask, SettleStatus.REMOVED),
    ItemState.ABSENT: dict.fromkeys(Ask, SettleStatus.BAD_ITEM),
}
"""`settled` still needs possible outputs: `unknownTopic`, `notWritable`, `badItem` and `noSpace` change nothing."""


def ask_of(item: SettleItem) -> Ask:
    """Return what a request asks for an item."""
    if not item.outputs:
        return Ask.DROP
    return Ask.FORCE if item.force else Ask.DELIVER
