"""Which replica leads each broker: the nameservers' addresses, and what the replicas say about themselves, put together. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from gateway.admin.schemas import BrokerGroupShown, ReplicaShown

MASTER_ID = 0
LEADER, UNKNOWN = "leader", "unknown"

ValueT = TypeVar("ValueT")


def addresses_of(said: Mapping[str, Any] | None) -> set[str]:
    """Return the addresses of the other replicas that a leader names: followers need not be registered."""
    return {str(one.get("address")) for one in _objects(said, "replicas")}


def group_of(
    broker: str, addresses: Mapping[int, str], said: Mapping[str, Mapping[str, Any] | None]
) -> BrokerGroupShown:
    """Return a broker's replicas. `said` has by address what each says; of two that say that they lead, the later epoch does.

    A replica may register another address than the one by which its group knows it, as in containers: its name tells that it is the same.
    """
    leaders = [
        (_of(one, "epoch", int) or 0, address)
        for address, one in said.items()
        if one is not None and one.get("role") == LEADER
    ]
    leading = said[max(leaders)[1]] if leaders else None
    others = {str(one.get("address")): one for one in _objects(leading, "replicas")}
    replicas = [
        _replica(number, address, said.get(address), others) for number, address in sorted(addresses.items())
    ]
    listed, names = set(addresses.values()), {one.name for one in replicas}
    replicas += [  # those that the leader knows and no nameserver
        _replica(None, address, said.get(address), others)
        for address, other in others.items()
        if address not in listed and other.get("name") not in names
    ]
    return BrokerGroupShown(
        broker=broker,
        leader=(_of(leading, "name", str) or "") if leading else "",
        address=max(leaders)[1] if leaders else addresses.get(MASTER_ID, ""),
        epoch=_of(leading, "epoch", int),
        leads_for_ms=_of(leading, "leadsForMs", int),
        members=[str(name) for name in (leading or {}).get("members", ())],
        min_in_sync=_of(leading, "minInSync", int),
        accepts_sends=_of(leading, "acceptsSends", bool),
        has_lease=_of(leading, "hasLease", bool),
        register_fault=next(
            (str(one["registerFault"]) for one in said.values() if one and one.get("registerFault")), ""
        ),
        replicas=replicas,
    )


def _replica(
    number: int | None, address: str, own: Mapping[str, Any] | None, others: Mapping[str, Mapping[str, Any]]
) -> ReplicaShown:
    name = _of(own, "name", str)
    named = next((at for at, one in others.items() if name and one.get("name") == name), "")
    by_leader = others.get(address) or others.get(named, {})
    is_leader = own is not None and own.get("role") == LEADER
    return ReplicaShown(
        name=name or _of(by_leader, "name", str) or "",
        broker_id=number,
        address=address,
        role=_of(own, "role", str) or UNKNOWN,
        epoch=_of(own, "epoch", int),
        end_offset=_of(own, "endOffset", int),
        behind_bytes=0 if is_leader else _of(by_leader, "behindBytes", int),
        behind_ms=0 if is_leader else _of(by_leader, "behindMs", int),
        in_sync=True if is_leader else _of(by_leader, "isInSync", bool),
        is_fit=_of(own, "isFit", bool),
    )


def _of(said: Mapping[str, Any] | None, name: str, kind: type[ValueT]) -> ValueT | None:
    """Return a value of this kind; None if it is absent or of another kind."""
    value = None if said is None else said.get(name)
    is_it = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    return value if is_it else None


def _objects(said: Mapping[str, Any] | None, name: str) -> Sequence[Mapping[str, Any]]:
    """Return the objects of a list; none if it is no list."""
    listed: object = None if said is None else said.get(name)
    if not isinstance(listed, list):
        return []
    return [cast("dict[str, Any]", one) for one in cast("list[object]", listed) if isinstance(one, dict)]
