"""A process without a free descriptor still opens a file, syncs a directory and lists one, and restores its reserve later."""

import resource
import subprocess
import sys

SCRIPT = """
import errno, os, resource, sys
from contextlib import suppress
from broker_store.log.files.real_files import RealFiles
from broker_store.log.files.spare_descriptors import SPARES

root = sys.argv[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
files = RealFiles()
taken = []

def take_all():
    with suppress(OSError):
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))

take_all()
kept = [files.open(f"{root}/{number}", create_bytes=1) for number in range(SPARES - 1)]
files.sync_dir(root)
files.sync_all(root)
files.replace_atomically(f"{root}/a", b"content")
assert files.read_bytes(f"{root}/a") == b"content"
assert len(files.listdir(root)) == SPARES
take_all()
kept.append(files.open(f"{root}/last", create_bytes=1))
try:
    files.open(f"{root}/more", create_bytes=1)
except OSError as error:
    assert error.errno == errno.EMFILE
else:
    raise AssertionError("where did that descriptor come from?")
os.close(taken.pop())
files.sync_dir(root)  # heals by itself
for fd in taken:
    os.close(fd)
taken.clear()
files.sync_dir(root)
take_all()
kept += [files.open(f"{root}/again{number}", create_bytes=1) for number in range(SPARES)]
"""


def test_files_open_from_the_reserve_when_the_process_has_no_descriptor_left(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path)], check=True, timeout=60)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
