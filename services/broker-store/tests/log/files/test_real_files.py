"""The real disk behind the Files interface: whole writes, non-blocking reads, durable names."""

import ctypes
import errno
import mmap
import os
from pathlib import Path

import pytest

from broker_store.log.files import real_files
from broker_store.log.files.files import make_durable_dirs
from broker_store.log.files.real_files import RealFile, RealFiles
from broker_store.log.retention import DiskUse

LIBC = ctypes.CDLL(None)


@pytest.fixture
def real(tmp_path):
    return RealFiles(), str(tmp_path)


def test_a_new_file_has_its_full_size_and_no_blocks(real):
    files, root = real
    file = files.open(f"{root}/f", create_bytes=1 << 30)
    assert file.size() == files.size(f"{root}/f") == 1 << 30
    assert Path(f"{root}/f").stat().st_blocks == 0
    assert file.next_data(0) is None
    file.pwrite(b"x", 1 << 20)
    assert file.next_data(0) == 1 << 20
    file.close()
    file.close()


def test_opening_keeps_a_file_that_is_large_enough_and_extends_a_short_one(real):
    files, root = real
    files.open(f"{root}/f", create_bytes=10).pwrite(b"abc", 0)
    assert files.open(f"{root}/f", create_bytes=5).pread(20, 0) == b"abc" + bytes(7)
    assert files.open(f"{root}/f", create_bytes=20).size() == 20
    with pytest.raises(FileNotFoundError):
        files.open(f"{root}/missing")


def test_more_buffers_than_one_call_takes_are_written_back_to_back(real):
    files, root = real
    file = files.open(f"{root}/f", create_bytes=0)
    buffers = [b"%04d" % number for number in range(3000)]
    file.pwritev(buffers, 7)
    file.sync()
    assert file.pread(20_000, 7) == b"".join(buffers)


def test_short_writes_are_continued(real, monkeypatch):
    files, root = real
    file = files.open(f"{root}/f", create_bytes=0)
    pwrite, pwritev = os.pwrite, os.pwritev
    monkeypatch.setattr(real_files.os, "pwrite", lambda fd, data, at: pwrite(fd, bytes(data)[:3], at))
    monkeypatch.setattr(
        real_files.os, "pwritev", lambda fd, parts, at: pwritev(fd, [b"".join(parts)[:5]], at)
    )
    file.pwritev([b"abcdef", b"ghi", bytearray(b"jklmnop")], 0)
    assert file.pread(100, 0) == b"abcdefghijklmnop"
    monkeypatch.setattr(real_files.os, "pwrite", lambda *_: 0)
    with pytest.raises(OSError, match="no more bytes"):
        file.pwrite(b"abc", 0)


def test_short_reads_are_continued_to_the_end_of_the_file(real, monkeypatch):
    files, root = real
    file = files.open(f"{root}/f", create_bytes=0)
    file.pwrite(b"abcdefgh", 0)
    pread = os.pread
    monkeypatch.setattr(real_files.os, "pread", lambda fd, size, at: pread(fd, min(size, 3), at))
    assert file.pread(8, 0) == b"abcdefgh"
    assert file.pread(100, 2) == b"cdefgh"
    assert file.pread(5, 50) == b""


def test_reading_without_waiting_gives_all_or_nothing(real, monkeypatch):
    files, root = real
    file = files.open(f"{root}/f", create_bytes=0)
    file.pwrite(b"abcdefgh", 0)
    assert file.pread_nowait(8, 0) == b"abcdefgh"
    assert file.pread_nowait(9, 0) is None

    def answer(error):
        def preadv(*_):
            raise error

        monkeypatch.setattr(real_files.os, "preadv", preadv)

    answer(BlockingIOError(errno.EAGAIN, "would wait"))
    assert file.pread_nowait(8, 0) is None
    answer(OSError(errno.EOPNOTSUPP, "unknown here"))
    assert file.pread_nowait(8, 0) == b"abcdefgh"
    answer(OSError(errno.EIO, "bad block"))
    with pytest.raises(OSError, match="bad block"):
        file.pread_nowait(8, 0)


def test_zeroing_allocates_blocks_and_truncating_gives_them_back(real):
    files, root = real
    file = files.open(f"{root}/f", create_bytes=4 << 20)
    file.zero(4096, 3 << 20)
    file.sync()
    assert Path(f"{root}/f").stat().st_blocks >= (3 << 20) // 512
    file.truncate(0)
    file.truncate(4 << 20)
    assert Path(f"{root}/f").stat().st_blocks == 0
    file.drop_cached(0, 4096)


def is_cached(path: Path, position: int) -> bool:
    """Whether the page cache holds a byte. A read that does not wait cannot say so: it starts readahead, and may get what that brings."""
    size = path.stat().st_size
    with path.open("r+b") as file, mmap.mmap(file.fileno(), size) as mapped:
        pages = (ctypes.c_ubyte * (size // mmap.PAGESIZE))()
        first = ctypes.c_char.from_buffer(mapped)
        error = LIBC.mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size), pages)
        del first  # a mapping in use cannot be closed
    assert error == 0
    return bool(pages[position // mmap.PAGESIZE] & 1)


@pytest.mark.parametrize("start", [100, 4096 + 100, (1 << 20) + 100])
def test_bytes_are_dropped_though_the_range_begins_within_a_page_or_a_larger_piece_of_the_cache(real, start):
    files, root = real
    path = Path(f"{root}/f")
    file = files.open(str(path), create_bytes=4 << 20)
    file.zero(0, 4 << 20)
    file.sync()
    file.drop_cached(0, 4 << 20)
    if is_cached(path, start):
        pytest.skip("this file system is in memory alone")
    file.zero(0, 4 << 20)
    file.sync()
    assert is_cached(path, start)
    file.drop_cached(start, (4 << 20) - start)
    assert not is_cached(path, start)


def test_an_error_of_seeking_differs_from_the_end(real, monkeypatch):
    files, root = real
    file = files.open(f"{root}/f", create_bytes=10)

    def lseek(*_):
        raise OSError(errno.EIO, "bad disk")

    monkeypatch.setattr(real_files.os, "lseek", lseek)
    with pytest.raises(OSError, match="bad disk"):
        file.next_data(0)


def test_a_file_is_closed_with_its_last_reference(real):
    files, root = real
    file = files.open(f"{root}/f", create_bytes=0)
    fd = file._fd
    del file
    with pytest.raises(OSError):
        os.fstat(fd)


def test_names_can_be_listed_renamed_linked_and_removed(real):
    files, root = real
    assert files.listdir(f"{root}/none") == []
    make_durable_dirs(files, f"{root}/a/b/c")
    make_durable_dirs(files, f"{root}/a/b/c")
    files.open(f"{root}/a/b/one", create_bytes=3)
    files.link(f"{root}/a/b/one", f"{root}/a/b/two")
    files.rename(f"{root}/a/b/one", f"{root}/a/b/three")
    assert files.listdir(f"{root}/a/b") == ["c", "three", "two"]
    files.sync_dir(f"{root}/a/b")
    files.remove(f"{root}/a/b/two")
    files.remove(f"{root}/a/b/two")
    assert files.exists(f"{root}/a/b/three")
    assert files.modified_ms(f"{root}/a/b/three") > 1_700_000_000_000
    Path(f"{root}/a/b/c/loop").symlink_to(f"{root}/a/b")
    files.remove_dir(f"{root}/a")
    files.remove_dir(f"{root}/a")
    assert not files.exists(f"{root}/a")


def test_content_is_replaced_whole(real):
    files, root = real
    assert files.read_bytes(f"{root}/f") is None
    files.replace_atomically(f"{root}/f", b"long content")
    files.replace_atomically(f"{root}/f", b"short")
    assert files.read_bytes(f"{root}/f") == b"short"
    assert files.listdir(root) == ["f"]


def test_a_whole_file_system_is_synced_at_once(real, monkeypatch):
    files, root = real
    files.open(f"{root}/f", create_bytes=3)
    files.sync_all(root)

    class Refusing:
        @staticmethod
        def syncfs(_fd):
            return -1

    monkeypatch.setattr(real_files, "_libc", Refusing)
    with pytest.raises(OSError):
        files.sync_all(root)


def test_space_is_reported(real):
    files, root = real
    assert 0 < files.free_bytes(root) <= files.total_bytes(root)


def test_blocks_reserved_for_others_do_not_count_as_used(real, monkeypatch):
    """As in RocketMQ and df: used / (used + free to us).

    With 10 of 100 blocks used and 30 left to us, a quarter is used.
    """
    files, root = real
    reported = os.statvfs_result((4096, 4096, 100, 90, 30, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _path: reported)
    use = DiskUse(files.total_bytes(root), files.free_bytes(root))
    assert use.used_ratio == 0.25


def test_a_real_file_is_a_plain_descriptor(tmp_path):
    fd = os.open(tmp_path / "x", os.O_RDWR | os.O_CREAT)
    file = RealFile("x", fd)
    assert file.size() == 0
