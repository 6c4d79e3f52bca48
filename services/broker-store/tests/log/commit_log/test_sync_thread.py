import queue
import threading

from broker_store.log.commit_log.sync_thread import SyncThread
from broker_store.log.errors import LogError, LogStopped, NoDescriptorLeft
from gantry_chassis.machine.environment import machine

WAIT_SECONDS = 60


class Device:
    """A disk whose sync ends when the test says so."""

    def __init__(self) -> None:
        self.may_end = threading.Semaphore(0)
        self.began: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.count = 0
        self.error: LogError | None = None

    def sync(self) -> int:
        self.count += 1
        self.began.put(self.count)
        assert self.may_end.acquire(timeout=WAIT_SECONDS)
        if self.error is not None:
            raise self.error
        return self.count


def started(device: Device):
    results: queue.SimpleQueue[tuple[str, object]] = queue.SimpleQueue()
    thread = SyncThread(
        device.sync,
        lambda function, argument: function(argument),
        machine().make_thread,
    )
    thread.start(
        lambda position: results.put(("synced", position)), lambda error: results.put(("failed", error))
    )
    return thread, results


def test_requests_that_come_during_a_sync_share_the_next_one():
    device = Device()
    thread, results = started(device)
    thread.request()
    assert device.began.get(timeout=WAIT_SECONDS) == 1
    for _ in range(100):
        thread.request()
    device.may_end.release()
    assert results.get(timeout=WAIT_SECONDS) == ("synced", 1)
    device.may_end.release()
    assert results.get(timeout=WAIT_SECONDS) == ("synced", 2)
    thread.stop()
    assert device.count == 2


def test_after_a_failure_nothing_is_synced_any_more():
    device = Device()
    thread, results = started(device)
    device.error = LogStopped("broken")
    thread.request()
    device.may_end.release()
    assert results.get(timeout=WAIT_SECONDS) == ("failed", device.error)
    device.error = None
    thread.request()
    thread.stop()
    assert device.count == 1


def test_a_sync_without_a_descriptor_is_retried_until_there_is_one():
    device = Device()
    thread, results = started(device)
    device.error = NoDescriptorLeft("none")
    thread.request()
    for number in (1, 2, 3):
        assert device.began.get(timeout=WAIT_SECONDS) == number
        if number == 3:
            device.error = None
        device.may_end.release()
    assert results.get(timeout=WAIT_SECONDS) == ("synced", 3)
    thread.stop()
    assert device.count == 3


def test_stop_ends_a_sync_that_finds_no_descriptor():
    device = Device()
    thread, results = started(device)
    device.error = NoDescriptorLeft("none")
    device.may_end.release(1_000)
    thread.request()
    device.began.get(timeout=WAIT_SECONDS)
    thread.stop()
    assert results.empty()


def test_stop_waits_for_the_running_sync():
    device = Device()
    thread, results = started(device)
    thread.request()
    device.began.get(timeout=WAIT_SECONDS)
    threading.Timer(0.05, device.may_end.release).start()
    thread.stop()
    assert results.get_nowait() == ("synced", 1)
