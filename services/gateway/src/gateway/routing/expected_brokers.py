"""Asks nameservers for the registered and the expected brokers, for all callers that must tell away from unknown."""

from collections.abc import Callable

from gateway.ports.stores import Broker, Names, PeerAway, StoreRefused
from gateway.routing.brokers import KnownBrokers
from gateway.routing.queue_lists import ORDER_NAMESPACE, holders_in


async def see_brokers(names: Names, known: KnownBrokers, now: Callable[[], float]) -> list[Broker]:
    """Return the registered brokers, and record the expected ones in `known`; raise PeerAway if no nameserver responds."""
    alive = await names.brokers()
    known.record_alive(alive, now())
    if known.are_lists_old(now()):
        try:
            lists = await names.values(ORDER_NAMESPACE)
        except PeerAway:
            if not known.has_lists:
                raise  # nobody knows which brokers are missing
        except StoreRefused:  # a nameserver without such lists
            known.listed((), now())
        else:
            known.listed({holder for text in lists.values() for holder in holders_in(text)}, now())
    return alive
