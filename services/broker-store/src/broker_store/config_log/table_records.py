"""Records the changes of one table: each in the call that makes it, again where it was refused, and at a start whatever the log lacks."""

import asyncio
import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from broker_store.config.config_files import DataVersionCounter
from broker_store.config_log.config_entries import ConfigEntries
from broker_store.config_log.config_entry import TABLE_OF, ConfigEntry, Key, Table, stamp_of
from broker_store.config_log.exports import Origin, TableExport
from broker_store.state_records.entry_log import EntryLog
from gantry_chassis.logs.structured import get_logger
from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest

RETRY_SECONDS = 5.0
MOVED_AT_ONCE = 256
"""Entries per write at a start that finds a directory of RocketMQ or of an earlier version: others use the log in between."""

Answer = Callable[[RefusedRequest | None], None]
"""Called once: with None when changes are durable, else with the reason why they may not be."""

_log = get_logger()


class KeptTable(Protocol):
    """A table in memory, as its records see it."""

    table: Table

    @property
    def version(self) -> DataVersionCounter:
        """Its DataVersion."""
        ...

    def values(self) -> Mapping[Key, bytes]:
        """Return the value of every entry."""
        ...

    def value(self, key: Key) -> bytes | None:
        """Return the current value of a key, None if there is none."""
        ...

    def presets(self) -> Mapping[Key, bytes]:
        """Return what every broker with these settings has. It needs no record."""
        ...


@dataclass(slots=True)
class _Waiting:
    keys: set[Key]
    """Whose newest records are not durable yet."""
    answer: Answer


class TableRecords:
    """The records of one table."""

    def __init__(
        self, table: KeptTable, entries: ConfigEntries, log: EntryLog[ConfigEntry], export: TableExport
    ) -> None:
        self._table = table
        self._entries = entries
        self._log = log
        self._export = export
        self._presets = table.presets()
        self._under_way: dict[Key, dict[int, bytes | None]] = {}
        """The values whose records are not durable yet, by the number of their append, oldest first."""
        self._owed: dict[Key, None] = {}
        """What was refused, or what a start has found, and was not sent again."""
        self._waiting: list[_Waiting] = []
        self._appends = 0
        self._has_begun = False
        self._is_retry_due = False
        self._is_moving = False
        """What a start has found is not yet in the log as a whole. The file must not say so before."""
        self._counts_file = False
        """The file would count at an opening, whatever the log holds: until it is written again, a change in the log is not safe."""

    @property
    def owed(self) -> Mapping[Key, None]:
        """Keys whose newest value the log lacks, and whose record is not under way."""
        return self._owed

    def begin(self, origin: Origin) -> None:
        """Record from now on. Append whatever differs from the log, and write the file after it. Blocks.

        Before this the log is still read. What changes meanwhile is found here.
        """
        self._has_begun = True
        values, table = self._table.values(), self._table.table
        differing = [
            key for key in {**values, **self._entries.live(table)} if values.get(key) != self._recorded(key)
        ]
        differing += [
            key for key in self._entries.unrecorded if TABLE_OF[key.kind] is table and key not in values
        ]
        found = origin.found if origin.is_file else None
        if found is not None and differing and (found.number is not None or not found.is_whole):
            self._export.begin_moving(values)
        self._counts_file = found is not None and (found.number is None or bool(differing))
        if not differing:
            if not self._export.is_current(origin):
                self._export.changed()
            return
        _log.info("configuration moves into the log", table=table.value, entries=len(differing))
        self._is_moving = True
        self._table.version.bump()
        self._owed.update(dict.fromkeys(differing))
        self._send_owed()

    def changed(self, *keys: Key) -> None:
        """Append what changed, in this call: a topic's record lies before its first message."""
        if self._has_begun:
            self._send([key for key in keys if self._is_news(key)])

    def when_saved(self, answer: Answer) -> None:
        """Call `answer` once all changes so far are durable, or with the reason why they may not be."""
        if self._is_retry_due:
            self._send_owed()
        keys = {*self._under_way, *self._owed}
        if keys:
            self._waiting.append(_Waiting(keys, answer))
        else:
            self._answer(answer)

    async def saved(self) -> None:
        """Return once all changes so far are durable. Raises OSError; the append is tried again."""
        done: asyncio.Future[RefusedRequest | None] = asyncio.get_running_loop().create_future()
        self.when_saved(lambda refusal: None if done.done() else done.set_result(refusal))
        if (refusal := await done) is not None:
            raise OSError(errno.EAGAIN, refusal.remark)

    async def close(self) -> None:
        """Wait until everything is in the log and in the file. A failure was logged."""
        if not self._has_begun:
            return
        try:
            await self.saved()
        except OSError as error:
            _log.error(
                "changes of configuration are not in the log",
                table=self._table.table.value,
                reason=str(error),
            )
        await self._export.close()

    def _is_news(self, key: Key) -> bool:
        if self._table.value(key) != self._recorded(key):
            return True
        return key in self._entries.unrecorded and key not in self._under_way

    def _recorded(self, key: Key) -> bytes | None:
        """Return the value of a key that the log has, or will have."""
        if key in self._under_way:
            return next(reversed(self._under_way[key].values()))
        entry = self._entries.find(key)
        return self._presets.get(key) if entry is None else entry.value

    def _send_owed(self) -> None:
        """Send what is owed, a part at a time. What was changed back meanwhile is owed no more."""
        part = list[Key]()
        for key in list(self._owed):
            if len(part) == MOVED_AT_ONCE:
                break
            if self._is_news(key):
                part.append(key)
            else:
                del self._owed[key]
        self._send(part)

    def _send(self, keys: list[Key]) -> None:
        if not keys:
            return
        stamp = stamp_of(self._table.version.value)
        entries = [ConfigEntry(*key, self._table.value(key), stamp) for key in keys]
        self._appends += 1
        for entry in entries:
            self._owed.pop(entry.key, None)
            self._under_way.setdefault(entry.key, {})[self._appends] = entry.value
        answered = partial(self._answered, self._appends, keys)
        try:
            self._log.enqueue(entries, answered)
        except RefusedRequest as refusal:
            asyncio.get_running_loop().call_soon(answered, refusal)

    def _answered(self, number: int, keys: list[Key], refusal: RefusedRequest | None) -> None:
        for key in keys:
            del self._under_way[key][number]
            if not self._under_way[key]:
                del self._under_way[key]
            if refusal is not None:
                self._owed[key] = None
        if refusal is None and not self._is_retry_due:
            self._send_owed()
        self._end_move()
        if refusal is None and not self._is_moving:
            self._export.changed()
        self._report(set(keys), refusal)
        if refusal is not None:
            self._try_again(refusal)

    def _end_move(self) -> None:
        if self._is_moving and not self._owed and not self._under_way:
            self._is_moving = False
            self._export.changed()

    def _report(self, keys: set[Key], refusal: RefusedRequest | None) -> None:
        """Answer those that wait for these keys: with a refusal at once, else when no key that they wait for is missing.

        What was owed and is changed back is missing no more, without a record.
        """
        ended, still = list[_Waiting](), list[_Waiting]()
        for waiting in self._waiting:
            is_refused = refusal is not None and not waiting.keys.isdisjoint(keys)
            waiting.keys = {key for key in waiting.keys if key in self._under_way or key in self._owed}
            (still if waiting.keys and not is_refused else ended).append(waiting)
        self._waiting = still
        for waiting in ended:
            if refusal is None:
                self._answer(waiting.answer)
            else:
                waiting.answer(refusal)

    def _answer(self, answer: Answer) -> None:
        """Answer a change that is in the log: where the file would count at an opening, once it is written."""
        if not self._counts_file:
            answer(None)
            return

        def written(error: OSError | None) -> None:
            self._counts_file = error is not None
            answer(None if error is None else RefusedRequest(ResponseCode.SYSTEM_ERROR, str(error)))

        self._export.when_saved(written)

    def _try_again(self, refusal: RefusedRequest) -> None:
        if self._is_retry_due:
            return
        self._is_retry_due = True
        _log.error(
            "configuration could not be recorded, trying again",
            table=self._table.table.value,
            reason=refusal.remark,
        )
        asyncio.get_running_loop().call_later(RETRY_SECONDS, self._retry)

    def _retry(self) -> None:
        self._is_retry_due = False
        self._send_owed()
        self._end_move()
        self._report(set(), None)
