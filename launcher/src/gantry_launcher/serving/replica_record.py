"""What a data directory says about replication: how many replicas each broker has, and which brokers have a register.

A number of replicas is of the data, not of a start: with another one, stores would find logs of nobody, or a group without most of its members.
"""

import json
import os
from collections.abc import Iterable
from typing import Any, cast

from gantry_launcher.access.private_files import write_private
from gantry_launcher.errors import Refused
from gantry_launcher.layout import DataDir
from gantry_launcher.options import REPLICAS
from gantry_launcher.planning.replicas import NAMES, Replication

GROWING = "a command that adds replicas to a broker does not exist yet"


def replication_of(data: DataDir, asked: int | None) -> Replication:
    """Return what a directory has; a new one gets the number that is asked for, else 1. Changes nothing.

    Raises Refused for another number than it has, and for a record that is damaged, or missing beside replicas.
    """
    kept = _kept(data)
    if kept is None:
        return Replication(asked or 1)
    if asked is not None and asked != kept.replicas:
        raise Refused(
            f"{data.path} has {_words(kept.replicas)} of each broker, not {asked}: start it without --replicas, or take another --data "
            f"for a new system with {asked} ({GROWING})"
        )
    return kept


def record(data: DataDir, replication: Replication) -> None:
    """Note what a directory has, durably, before its first store starts. Without replication there is nothing to note. Raises Refused."""
    if replication.replicas == 1:
        return
    said = {"replicas": replication.replicas, "withRegister": sorted(replication.with_register)}
    write_private(data.replication, json.dumps(said) + "\n")
    folder = os.open(data.path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def with_registers(replication: Replication, brokers: Iterable[str]) -> Replication:
    """Return it with the registers of these brokers, which the stores have made."""
    return Replication(replication.replicas, replication.with_register | frozenset(brokers))


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
    return Replication(replicas, names)


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


def _words(replicas: int) -> str:
    return "one store" if replicas == 1 else f"{replicas} replicas"
