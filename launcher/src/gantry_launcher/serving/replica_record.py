"""What a data directory says about replication: which replicas each broker has, and which brokers have a register.

A number of replicas is of the data, not of a start: with another one, stores would find logs of nobody, or a group without most of its members.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

from gantry_launcher.access.private_files import write_private
from gantry_launcher.errors import Refused
from gantry_launcher.layout import DataDir
from gantry_launcher.options import REPLICAS
from gantry_launcher.planning.replicas import NAMES, REPLICAS_MAX, REPLICAS_MIN, Replication

GROWING = "./gantry replicas add BROKER gives a running broker one more"
SINGLE = "a single store has no register, and gets no replicas later"


def replication_of(data: DataDir, asked: int | None) -> Replication:
    """Return what a directory has; a new one gets the number that is asked for, else 1. Changes nothing.

    Raises Refused for another number than it has, and for a record that is damaged, or missing beside replicas.
    """
    kept = _kept(data)
    if kept is None:
        return Replication(asked or 1)
    counts = _counts(kept)
    if asked is not None and set(counts.values()) != {asked}:
        way = SINGLE if kept.replicas == 1 else GROWING
        raise Refused(
            f"{data.path} has {_words(counts)}, not {asked}: start it without --replicas, or take another --data "
            f"for a new system with {asked} ({way})"
        )
    return kept


def record(data: DataDir, replication: Replication) -> None:
    """Note what a directory has, durably, before its first store starts. Without replication there is nothing to note. Raises Refused."""
    if replication.replicas == 1:
        return
    said: dict[str, Any] = {
        "replicas": replication.replicas,
        "withRegister": sorted(replication.with_register),
    }
    if replication.names:
        said |= {"names": dict(replication.names), "used": dict(replication.used)}
    write_private(data.replication, json.dumps(said) + "\n")
    folder = os.open(data.path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def with_registers(replication: Replication, brokers: Iterable[str]) -> Replication:
    """Return it with the registers of these brokers, which the stores have made."""
    return replace(replication, with_register=replication.with_register | frozenset(brokers))


def _kept(data: DataDir) -> Replication | None:
    """Return what the directory has; None for a new one. Raises Refused."""
    try:
        return _read(data.replication.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return _without_record(data)
    except (OSError, ValueError) as error:
        raise Refused(
            f"{data.replication} cannot be used ({error}): nothing was changed. It holds the number of replicas, as "
            '{"replicas": 3, "withRegister": ["broker-a"]}'
        ) from error


def _read(text: str) -> Replication:
    """Return what a record says. Raises ValueError."""
    said: Any = json.loads(text)
    if not isinstance(said, dict):
        raise ValueError("it is no object")  # noqa: TRY004 - the text is wrong, not a type of ours
    fields = cast("dict[str, Any]", said)
    replicas, made = fields.get("replicas"), fields.get("withRegister")
    if replicas not in REPLICAS[1:]:
        raise ValueError(f"replicas is {replicas!r}")
    names = (
        frozenset(name for name in cast("list[Any]", made) if isinstance(name, str))
        if isinstance(made, list)
        else None
    )
    if names is None or len(names) != len(cast("list[Any]", made)):
        raise ValueError(f"withRegister is {made!r}")
    listed = {key: _read_names(fields.get(key, {}), key) for key in ("names", "used")}
    for broker, now in listed["names"].items():
        if not REPLICAS_MIN <= len(now) <= REPLICAS_MAX or not set(now) <= set(
            listed["used"].get(broker, ())
        ):
            raise ValueError(f"names of {broker} are {now!r}")
    return Replication(replicas, names, listed["names"], listed["used"])


def _read_names(said: Any, key: str) -> dict[str, tuple[str, ...]]:
    """Return names of replicas by broker. Raises ValueError."""
    found: dict[str, tuple[str, ...]] = {}
    for broker, names in cast("dict[str, Any]", said).items() if isinstance(said, dict) else [("", None)]:
        listed = cast("list[Any]", names) if isinstance(names, list) else []
        if not listed or any(name not in tuple(NAMES) for name in listed) or len({*listed}) != len(listed):
            raise ValueError(f"{key} is {said!r}")
        found[broker] = tuple(listed)
    return found


def _without_record(data: DataDir) -> Replication | None:
    """Return what a directory without a record has: single stores, or nothing yet."""
    brokers = [folder for folder in data.path.glob("broker-?") if folder.is_dir()]
    replicas = [
        path for folder in brokers for name in NAMES if (path := folder / name / "commitlog").is_dir()
    ]
    if replicas:
        raise Refused(
            f"{data.replication} is missing, and {replicas[0].parent} is one of several replicas: put the file back"
        )
    return Replication(1) if brokers else None


def _counts(kept: Replication) -> dict[str, int]:
    """Return the number of replicas by broker; of one without a name, if all have the same."""
    brokers = sorted({*kept.with_register, *kept.names})
    counts = {broker: len(kept.names_of(broker)) for broker in brokers}
    return counts if len(set(counts.values())) > 1 else {"": next(iter(counts.values()), kept.replicas)}


def _words(counts: dict[str, int]) -> str:
    if (count := counts.get("")) is not None:
        return f"{'one store' if count == 1 else f'{count} replicas'} of each broker"
    return ", ".join(f"{count} replicas of {broker}" for broker, count in counts.items())
