"""An emulated power cut: the store has its own file system, which is shut down without writing its log, so dirty pages are lost.

Needs root, mkfs.ext4 and a loop device. Linux only.
"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

EXT4_IOC_SHUTDOWN = 0x8004587D  # _IOR('X', 125, __u32), linux/ext4.h
EXT4_GOING_FLAGS_NOLOGFLUSH = 2
IMAGE_BYTES = 1 << 30


@dataclass
class PoweredDisk:
    """An ext4 in an image file, mounted at `mount`."""

    image: Path
    mount: Path
    size: int = IMAGE_BYTES

    def create(self) -> None:
        with self.image.open("wb") as file:
            file.truncate(self.size)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(self.image)], check=True)
        self.mount.mkdir()
        self.power_on()

    def power_on(self) -> None:
        subprocess.run(["mount", "-o", "loop", str(self.image), str(self.mount)], check=True)

    def cut(self) -> None:
        """From now on every write fails, and after `power_on` unsynced data is lost."""
        handle = os.open(self.mount, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, EXT4_IOC_SHUTDOWN, struct.pack("I", EXT4_GOING_FLAGS_NOLOGFLUSH))
        finally:
            os.close(handle)

    def unmount(self) -> None:
        subprocess.run(["umount", str(self.mount)], check=True)
