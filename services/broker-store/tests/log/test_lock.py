"""One process per store directory."""

import fcntl
import os
import subprocess
import sys

import pytest

from broker_store.log.errors import StoreInUse
from broker_store.log.lock import StoreLock


def test_a_second_holder_is_refused_until_the_first_lets_go(tmp_path):
    lock = StoreLock(str(tmp_path / "store"))
    with pytest.raises(StoreInUse, match="in use by another process"):
        StoreLock(str(tmp_path / "store"))
    lock.release()
    StoreLock(str(tmp_path / "store")).release()
    assert (tmp_path / "store" / "lock").read_bytes() == b"lock"


def test_a_program_that_locks_the_first_byte_as_rocketmq_does_is_detected(tmp_path):
    (tmp_path / "lock").write_bytes(b"lock")
    code = "import fcntl,sys;f=open(sys.argv[1],'r+b');fcntl.lockf(f,fcntl.LOCK_EX,1,0,0);print('held',flush=True);sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreInUse):
            StoreLock(str(tmp_path))
        holder.stdin.close()
        holder.wait(10)
    lock = StoreLock(str(tmp_path))
    tester = "import fcntl,sys;f=open(sys.argv[1],'r+b')\ntry: fcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB,1,0,0)\nexcept OSError: print('refused')"
    shown = subprocess.run(
        [sys.executable, "-c", tester, str(tmp_path / "lock")], capture_output=True, check=True
    )
    assert shown.stdout == b"refused\n"
    lock.release()


def test_the_lock_is_not_inherited_by_children(tmp_path):
    lock = StoreLock(str(tmp_path))
    assert fcntl.fcntl(lock._fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    lock.release()
    with pytest.raises(OSError):
        os.fstat(lock._fd)
