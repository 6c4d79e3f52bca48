"""Reads runtime information that metrics do not hold: disk, ends of the log, age of its oldest message."""

from collections.abc import Callable

from broker_store.commit.appends import Appends
from broker_store.log.errors import LogError
from broker_store.metrics.runtime_info import RuntimeState
from broker_store.opening.opening import OpenedStore
from gantry_wire.errors import WireError
from gantry_wire.records.message_record import decode_record


class RuntimeReader:
    """Provides the state for code 28. `read` accesses the disk: call it in a thread."""

    def __init__(self, store: OpenedStore, appends: Appends, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._appends = appends
        self._now_ms = now_ms
        self._boot_ms = now_ms()

    def read(self) -> RuntimeState:
        """Return the current state."""
        store, log, now_ms = self._store, self._store.log, self._now_ms()
        return RuntimeState(
            now_ms=now_ms,
            boot_ms=self._boot_ms,
            log_min=log.min_position,
            log_max=log.visible_end,
            earliest_ms=self._earliest_ms(now_ms),
            disk_total=store.files.total_bytes(store.directory),
            disk_free=store.files.free_bytes(store.directory),
            store_dir=store.directory,
            dispatch_behind=log.written_end - self._appends.visible_end,
            unflushed_bytes=log.written_end - log.durable_end,
            accept_sends_after_ms=store.settings.accept_sends_after_ms,
        )

    def _earliest_ms(self, now_ms: int) -> int:
        log = self._store.log
        if log.visible_end <= log.min_position:
            return now_ms
        try:
            return decode_record(log.read_record(log.min_position)).store_timestamp
        except (LogError, WireError, OSError):
            return now_ms
