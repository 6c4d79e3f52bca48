"""The only thread that calls fdatasync.

Each call covers every request made before it; the loop then gets the position reached.
"""

import queue
from collections.abc import Callable
from typing import Protocol

from broker_store.log.errors import LogStopped, NoDescriptorLeft
from gantry_chassis.machine.environment import StartThread, Thread

RETRY_SECONDS = 0.05
"""Pause between retries while no file descriptor is free to sync the log directory."""

InLoop = Callable[..., object]
"""Runs a function with arguments in the event loop (`call_soon_threadsafe`)."""

Synced = Callable[[int], None]
"""Takes the position below which everything is durable."""
Failed = Callable[[LogStopped], None]


class Flusher(Protocol):
    """Makes written bytes durable, in its own time (`SyncThread`)."""

    @property
    def request(self) -> Callable[[], None]:
        """Requests a sync of everything written so far. Never blocks."""
        ...

    def start(self, on_synced: Synced, on_failed: Failed) -> None:
        """Answer requests from now on, those made before included, with one of these calls in the loop."""
        ...

    def stop(self) -> None:
        """Stop after the running sync. Blocks until then."""
        ...


class SyncThread:
    """Runs `sync` once for all requests made while the last one ran."""

    def __init__(
        self,
        sync: Callable[[], int],
        in_loop: InLoop,
        start_thread: StartThread,
    ) -> None:
        self._sync = sync
        self._in_loop = in_loop
        self._requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._start_thread = start_thread
        self._thread: Thread | None = None
        self.request: Callable[[], None] = self._request

    def start(self, on_synced: Synced, on_failed: Failed) -> None:
        """Start the thread. It answers each sync with one of these calls in the loop."""
        self._thread = self._start_thread(lambda: self._run(on_synced, on_failed), "sync")

    def stop(self) -> None:
        """Stop after the running sync. Blocks until then."""
        self._requests.put(False)
        if self._thread is not None:
            self._thread.join()

    def _request(self) -> None:
        """Request a sync of everything written so far. Never blocks."""
        self._requests.put(True)

    def _run(self, on_synced: Synced, on_failed: Failed) -> None:
        requests = self._requests
        while requests.get():
            is_running = True
            while is_running:
                try:
                    is_running = requests.get_nowait()
                except queue.Empty:
                    break
            try:
                position = self._sync()
            except NoDescriptorLeft:
                if not is_running or not self._waits_for_retry():
                    return  # nobody waits for what is written
                continue
            except LogStopped as stopped:
                self._in_loop(on_failed, stopped)
                return  # a failed sync is never retried into a success
            self._in_loop(on_synced, position)
            if not is_running:
                return

    def _waits_for_retry(self) -> bool:
        """Wait and request the same sync again. False when the thread must stop."""
        try:
            is_running = self._requests.get(timeout=RETRY_SECONDS)
        except queue.Empty:
            is_running = True
        if is_running:
            self._requests.put(True)
        return is_running
