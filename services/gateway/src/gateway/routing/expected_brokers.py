"""Asks nameservers who is registered, and which brokers are expected: one place, for all that must not mistake away for unknown."""

from collections.abc import Callable

from gateway.ports.stores import Broker, Names, PeerAway, StoreRefused
from gateway.routing.brokers import KnownBrokers
from gateway.routing.queue_lists import ORDER_NAMESPACE, holders_in


async def see_brokers(names: Names, known: KnownBrokers, now: Callable[[], float]) -> list[Broker]:
    """Return the brokers that are registered, and note in `known` who is expected; PeerAway when no nameserver answers."""
    alive = await names.brokers()
    known.saw(alive, now())
    if known.are_lists_old(now()):
        try:
            lists = await names.values(ORDER_NAMESPACE)
        except PeerAway:
            if not known.has_lists:
                raise  # nobody knows who is missing
        except StoreRefused:  # a nameserver without such lists
            known.listed((), now())
        else:
            known.listed({holder for text in lists.values() for holder in holders_in(text)}, now())
    return alive
