"""Open files are few, whatever the number of queues, and fewer when the process has no descriptor left."""

import errno

import pytest

from broker_store.log.files.file_pool import FilePool
from broker_store.log.files.simulated_files import Fault, SimulatedFiles


def pool_of(disk: SimulatedFiles, count: int) -> FilePool:
    pool = FilePool(disk, open_max=8)
    disk.make_dirs("/q")
    for number in range(count):
        pool.get(f"/q/{number}", create_bytes=16).pwrite(b"%016d" % number, 0)
    return pool


def opened(disk: SimulatedFiles) -> int:
    return sum(1 for operation, _ in disk.trace if operation == "open")


def test_the_least_recently_used_file_is_released_and_opened_again():
    disk = SimulatedFiles()
    pool = pool_of(disk, 20)
    before = opened(disk)
    assert pool.get("/q/19").pread(16, 0) == b"%016d" % 19
    assert opened(disk) == before
    assert pool.get("/q/3").pread(16, 0) == b"%016d" % 3
    assert opened(disk) == before + 1


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
def test_without_a_free_descriptor_the_pool_gives_some_of_its_own_back(error):
    disk = SimulatedFiles()
    pool = pool_of(disk, 20)
    disk.faults.append(Fault("open", error, "/q/1", count=1))
    assert pool.get("/q/1").pread(16, 0) == b"%016d" % 1
    before = opened(disk)
    pool.get("/q/19")
    pool.get("/q/13")
    assert opened(disk) == before + 1, "the newest are kept, the oldest were let go"


def test_an_empty_pool_and_other_errors_pass_on_what_the_disk_says():
    disk = SimulatedFiles()
    disk.make_dirs("/q")
    disk.faults.append(Fault("open", errno.EMFILE, "/q/1"))
    with pytest.raises(OSError, match="injected"):
        FilePool(disk).get("/q/1", create_bytes=16)
    pool = pool_of(disk, 2)
    disk.faults.append(Fault("open", errno.EIO, "/q/9"))
    with pytest.raises(OSError, match="injected"):
        pool.get("/q/9", create_bytes=16)
