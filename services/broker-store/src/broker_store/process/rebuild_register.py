"""Makes the register of a broker again, after its stream was lost. For an operator, while the stores of the broker are stopped.

    python -m broker_store.process.rebuild_register remember SETTINGS…                 on each machine: prints one line about this replica
    python -m broker_store.process.rebuild_register write --from FILE… SETTINGS…       on one of them, with the lines of all replicas

SETTINGS are those of the store on that machine: `-c FILE`, `--set name=value`, variables. Options of `write`:

    --from FILE      lines of `remember`; may be repeated
    --without NAME   a replica that is lost: what only it had is lost, and its directory must never be started again
    --replace        remove a stream that is there, but has lost records or is damaged, or whose set waits for replicas that are lost
    --yes            do not ask

docs/replication.md says when. `rebuilding.py` says which replica leads then, and why that loses nothing.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from broker_store.config.broker_conf import read_broker_conf
from broker_store.log.checkpoint.checkpoint_file import CheckpointFile
from broker_store.log.errors import LogError
from broker_store.log.file_walk import log_end
from broker_store.log.files.real_files import RealFiles
from broker_store.log.lock import StoreLock
from broker_store.process.group.settings import GroupSettings, group_settings
from broker_store.replication.kept_file import NAME, KeptUnreadable, decode_kept
from broker_store.replication.register.jetstream_register import JetStreamRegister
from broker_store.replication.register.port import (
    Refused,
    RegisterAway,
    RegisterBehind,
    RegisterUnusable,
    Written,
)
from broker_store.replication.register.rebuilding import CannotRebuild, Remembered, missing_names, rebuilt
from broker_store.replication.register.record import Registered
from broker_store.settings import Settings
from gantry_chassis.certificates import OutgoingFiles
from gantry_chassis.machine.environment import machine
from gantry_chassis.metrics import Metrics
from gantry_chassis.nats_connection import NatsRequests, servers_of
from gantry_chassis.settings.loading import SettingsRefused, load_settings, parse_arguments
from gantry_chassis.start_refusal import StartRefused
from gantry_link.connections.client_tls import hints_tls

REFUSED = 2
ANSWER_SECONDS_MAX = 60.0
"""NATS servers that have just started elect a leader first."""
PAUSE_SECONDS = 0.5
T = TypeVar("T")


class Choices(NamedTuple):
    """The options of `write`."""

    files: list[str]
    without: list[str]
    replace: bool
    yes: bool


class NotDone(Exception):
    """Nothing was changed, or not known to be. The message says why."""


def main(words: list[str]) -> int:
    """Run one command line. Returns its exit status."""
    try:
        if not words or words[0] not in {"remember", "write"}:
            sys.stdout.write(f"{__doc__}\n")
            return 0 if {"-h", "--help"} & set(words) else REFUSED
        choices, rest = _choices(words[1:])
        settings, group = _settings(rest)
        if words[0] == "remember":
            sys.stdout.write(msgspec.json.encode(remember(settings, group)).decode() + "\n")
        else:
            asyncio.run(_write(settings, group, choices))
    except (NotDone, SettingsRefused, StartRefused, CannotRebuild) as error:
        sys.stderr.write(f"rebuild_register: {error}\n")
        return REFUSED
    return 0


def remember(settings: Settings, group: GroupSettings) -> Remembered:
    """Return what a stopped replica has in its directory. Raises NotDone."""
    directory = str(settings.store_dir)
    try:
        lock = StoreLock(directory)
    except (LogError, OSError) as error:
        raise NotDone(str(error)) from error
    try:
        kept = decode_kept(Path(directory, NAME).read_bytes())
        checkpoint = CheckpointFile(RealFiles(), f"{directory}/checkpoint")
        _, confirm = checkpoint.read()
        checkpoint.close()
        end = kept.begin if kept.is_void else log_end(Path(directory, "commitlog"), max(confirm, kept.begin))
    except (OSError, KeptUnreadable) as error:
        raise NotDone(f"{directory} cannot be read: {error}") from error
    finally:
        lock.release()
    return Remembered(
        group=group.group, name=group.name, fence=kept.fence, newest=kept.newest, epoch=kept.table.until(end).newest,
        end=end, is_void=kept.is_void,
    )  # fmt: skip


async def _write(settings: Settings, group: GroupSettings, choices: Choices) -> None:
    replicas = [one for one in _read(choices.files) if one.name not in choices.without]
    missing = [name for name in missing_names(replicas, group.order) if name not in choices.without]
    if missing:
        raise NotDone(
            f"nothing is known of {', '.join(missing)}: give what `remember` prints there. For a replica that is lost for good:"
            f" --without {missing[0]}"
        )
    environment = machine()
    record = rebuilt(replicas, f"rebuilt-{environment.secret_bytes(8).hex()}")
    if record.group != group.group:
        raise NotDone(f"these are replicas of {record.group}, and the settings are those of {group.group}")
    _show(replicas, record, choices)
    _confirm(record, choices)
    tls = OutgoingFiles(Metrics(), "gantry_store").open(hints_tls, settings)
    requests = NatsRequests(
        servers_of(settings.nats_url), "rebuild of a register", environment.rng, settings.nats_token_file, tls
    )
    try:
        register = JetStreamRegister(requests, group.group, group.register_servers, 0)
        await _refuse_a_whole_one(register, max(one.version for one in replicas), record.version, choices)
        await _append(register, record)
    finally:
        await requests.close()
    sys.stdout.write(
        f"the register of {record.group} is written: start its stores; {record.leader} leads first\n"
    )


async def _refuse_a_whole_one(
    register: JetStreamRegister, highest: int, next_version: int, choices: Choices
) -> None:
    """Raise NotDone where the register is there. With --replace, remove one that lacks records, or whose set waits for replicas that are lost."""
    try:
        found = await _answered(register.read)
        waits_for_lost = choices.replace and bool(choices.without) and found.version < next_version
        if found.version >= highest and not waits_for_lost:
            raise NotDone(
                f"the register is there, and its version {found.version} is not older than what the replicas know: nothing to rebuild. "
                "If replicas of its set are lost for good, name them with --without, and add --replace"
            )
        fault = f"the register ends at version {found.version}, and the replicas know {highest}"
    except (RegisterBehind, RegisterUnusable) as error:
        fault = str(error)
    if choices.replace:
        await _answered(register.remove)
    elif await _answered(register.exists):
        raise NotDone(f"{fault}. --replace removes that stream")


async def _append(register: JetStreamRegister, record: Registered) -> None:
    async def append() -> None:
        outcome = await register.rebuild(record.version - 1, record)
        if isinstance(outcome, Refused):
            raise NotDone(
                f"somebody else wrote version {outcome.stands.version} meanwhile: nothing was changed"
            )
        if not isinstance(outcome, Written):
            raise RegisterAway(outcome.why)

    try:
        await _answered(append)
    except RegisterUnusable as error:
        raise NotDone(str(error)) from error


async def _answered(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until the register answers. Raises NotDone after ANSWER_SECONDS_MAX; what `ask` raises but RegisterAway."""
    loop = asyncio.get_running_loop()
    until = loop.time() + ANSWER_SECONDS_MAX
    while True:
        try:
            return await ask()
        except RegisterAway as error:
            if loop.time() > until:
                raise NotDone(f"the register does not answer: {error}") from error
        await asyncio.sleep(PAUSE_SECONDS)


def _read(files: list[str]) -> list[Remembered]:
    """Return what the lines of these files say about replicas. Raises NotDone."""
    try:
        lines = [
            line for file in files for line in Path(file).read_text(encoding="utf-8").splitlines() if line
        ]
        return [msgspec.json.decode(line, type=Remembered) for line in lines]
    except (OSError, ValueError, msgspec.DecodeError) as error:
        raise NotDone(f"what `remember` printed cannot be read: {error}") from error


def _show(replicas: list[Remembered], record: Registered, choices: Choices) -> None:
    lines = ["replica  knows version  promised  epoch  log ends at"]
    for one in sorted(replicas, key=lambda one: one.name):
        known, end = one.newest.version if one.newest else 0, "void" if one.is_void else one.end
        lines.append(f"{one.name:<7}  {known:<13}  {one.fence:<8}  {one.epoch:<5}  {end}")
    lines += [
        f"{name:<7}  lost: messages that only it had are lost; never start its directory again"
        for name in choices.without
    ]
    lines.append(
        f"the register of {record.group} will have version {record.version}, epoch {record.epoch}, and {record.leader} as the one replica"
        " in sync: it leads, and the others copy what they lack"
    )
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def _confirm(record: Registered, choices: Choices) -> None:
    if choices.yes:
        return
    if not sys.stdin.isatty():
        raise NotDone("nothing was changed: repeat it with --yes, or at a terminal")
    sys.stdout.write(
        f"all stores of {record.group} stay stopped until this ends. Type the broker's name to continue: "
    )
    sys.stdout.flush()
    if sys.stdin.readline().strip() != record.group:
        raise NotDone("nothing was changed")


def _choices(words: list[str]) -> tuple[Choices, list[str]]:
    """Return the options of `write`, and the other words. Raises NotDone."""
    choices, rest, left = Choices([], [], False, False), list[str](), iter(words)
    for word in left:
        if word in {"--from", "--without"}:
            value = next(left, "")
            if not value:
                raise NotDone(f"{word} needs a value")
            (choices.files if word == "--from" else choices.without).append(value)
        elif word in {"--replace", "--yes"}:
            choices = choices._replace(**{word.removeprefix("--"): True})
        else:
            rest.append(word)
    return choices, rest


def _settings(words: list[str]) -> tuple[Settings, GroupSettings]:
    """Return the settings of the store. Raises SettingsRefused, StartRefused, NotDone."""
    arguments = parse_arguments(words, options={"-n": "nameservers"})
    settings = load_settings(
        Settings, "BROKER_STORE", arguments, read_file=lambda path: read_broker_conf(path).values
    )
    group = group_settings(settings)
    if group is None:
        raise NotDone("these settings are of a store without replicas: it has no register")
    return settings, group


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
