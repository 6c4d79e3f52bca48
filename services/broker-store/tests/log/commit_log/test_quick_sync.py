from broker_store.log.commit_log.quick_sync import QUICK_SECONDS, SLOW_SECONDS, QuickSync
from broker_store.log.commit_log.sync_thread import SyncThread
from broker_store.log.errors import NoDescriptorLeft


class IdleThread:
    """A thread that only counts its wakes."""

    def __init__(self):
        self.wakes = 0

    def start(self): ...

    def stop(self): ...

    def wake(self):
        self.wakes += 1


class Disk:
    """Syncs in the loop that take as long as the test says, one after the other."""

    def __init__(self, *, is_on=True):
        self.now, self.seconds, self.error, self.is_free = 100.0, 0.0001, None, True
        self.count, self.synced, self.thread = 0, [], IdleThread()
        thread = SyncThread(lambda: 0, lambda call, *more: call(*more), lambda _step, _name: self.thread)
        self.quick = QuickSync(thread, self.sync_if_free, self.synced.append, lambda: self.now, is_on=is_on)

    def sync_if_free(self):
        if self.error is not None:
            raise self.error
        if not self.is_free:
            return None
        self.now += self.seconds
        self.count += 1
        return self.count

    def request(self, count=1):
        for _ in range(count):
            self.quick.request()


def test_a_quick_disk_is_synced_at_once():
    disk = Disk()
    disk.request(3)
    assert disk.synced == [1, 2, 3]
    assert disk.thread.wakes == 0


def test_without_fast_paths_the_thread_syncs():
    disk = Disk(is_on=False)
    disk.request(3)
    assert disk.synced == []
    assert disk.thread.wakes == 3


def test_a_disk_that_hangs_holds_the_loop_once():
    disk = Disk()
    disk.request(100)
    disk.seconds = 20.0
    disk.request(10)
    assert len(disk.synced) == 101
    assert disk.thread.wakes == 9


def test_a_disk_that_becomes_slower_sends_the_syncs_to_the_thread_until_it_is_tried_again():
    disk = Disk()
    disk.seconds = 2 * QUICK_SECONDS
    disk.request(50)
    slow = len(disk.synced)
    assert slow < 20
    assert disk.thread.wakes == 50 - slow
    disk.now += SLOW_SECONDS
    disk.seconds = QUICK_SECONDS / 10
    disk.request(10)
    assert len(disk.synced) == slow + 10


def test_a_single_slow_sync_of_a_quick_disk_changes_nothing():
    disk = Disk()
    disk.request(50)
    disk.seconds = 4 * QUICK_SECONDS
    disk.request()
    disk.seconds = QUICK_SECONDS / 10
    disk.request(50)
    assert disk.thread.wakes == 0


def test_a_sync_that_another_thread_holds_up_is_left_to_the_thread():
    disk = Disk()
    disk.is_free = False
    disk.request()
    assert disk.synced == []
    assert disk.thread.wakes == 1


def test_without_a_descriptor_the_thread_tries_again():
    disk = Disk()
    disk.error = NoDescriptorLeft("none")
    disk.request()
    assert disk.synced == []
    assert disk.thread.wakes == 1
