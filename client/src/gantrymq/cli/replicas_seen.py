"""What `gantrymq doctor` says of the replicas of brokers, from what the launcher on this machine knows of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gantrymq.cli.examining import Finding

IN_SYNC = frozenset({"leader", "follower"})
"""Roles of a store that is counted in acknowledgements. Another one is on its way there, or does not answer."""
SERVERS_NEEDED = "two of the three NATS servers must run: ./gantry status shows them. If the stream is lost: ./gantry replicas rebuild-register {}"


def replica_findings(brokers: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Return a finding for each replica, and one for each broker without a leader or whose register is away.

    `brokers` is what `./gantry status --json` lists; brokers without replicas have no findings.
    """
    return [finding for broker in brokers if broker.get("replicas") for finding in _findings(broker)]


def _findings(broker: Mapping[str, Any]) -> list[Finding]:
    name, replicas = broker["name"], broker["replicas"]
    found = [_replica(name, one) for one in replicas]
    addresses = ", ".join(one["address"] for one in replicas)
    if broker["leader"] is None:
        words = "no replica leads: sends and pulls of this broker wait"
        remedy = f"a takeover needs an answer of the register, and most of its replicas: see the log of {name} in ./gantry status"
        found.append(Finding(f"{name} leader", addresses, False, words=words, remedy=remedy))
    if broker["registerFault"]:
        words = (
            f"its register does not answer ({broker['registerFault']}): takeovers and changes of its set wait"
        )
        found.append(
            Finding(f"{name} register", addresses, False, words=words, remedy=SERVERS_NEEDED.format(name))
        )
    return found


def _replica(broker: str, one: Mapping[str, Any]) -> Finding:
    part, address, role = f"{broker} {one['name']}", one["address"], one["role"]
    if role in IN_SYNC:
        return Finding(part, address, True) if one.get("isFit") is not False else _unfit(part, one)
    if role == "unknown":
        words, remedy = (
            "it does not answer who leads",
            "is it running? ./gantry status shows it; its log says why it ended",
        )
        return Finding(part, address, False, words=words, remedy=remedy)
    behind = "" if one["behindBytes"] is None else f", behind by {one['behindBytes']} bytes"
    remedy = "it copies what it lacks and is then in sync; if that lasts, its log says why"
    return Finding(part, address, False, words=f"it is not in sync ({role}{behind})", remedy=remedy)


def _unfit(part: str, one: Mapping[str, Any]) -> Finding:
    lost = one.get("lostBytes")
    if lost:
        words = f"it is not fit to lead: its log has lost {lost} bytes"
        remedy = "it fills them from another replica; if that lasts, its log and its file gantry/lost say why: docs/replication.md, damaged records"
    else:
        words = "it is not fit to lead: its disk is full, or its log has lost records"
        remedy = "free space; a file gantry/lost in its store directory names lost records: docs/replication.md, damaged records"
    return Finding(part, one["address"], False, words=words, remedy=remedy)
