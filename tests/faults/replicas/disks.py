"""A file system for each replica, in an image: it can be full, hang, fail, and lose its power. For root, on Linux."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import time
from pathlib import Path

from ...crash.power import PoweredDisk  # noqa: TID252

IMAGE_BYTES = 640 << 20
FIFREEZE, FITHAW = 0xC0045877, 0xC0045878  # _IOWR('X', 119 and 120, int), linux/fs.h
UNMOUNT_SECONDS_MAX = 30.0
"""A process that was killed leaves its files when its last write has ended."""


class Disk:
    """The disk of one replica."""

    def __init__(self, folder: Path, name: str) -> None:
        self._powered = PoweredDisk(folder / f"disk-{name}.img", folder / f"disk-{name}", IMAGE_BYTES)
        self._powered.create()
        self.directory = self._powered.mount / "store"
        self._filling = self._powered.mount / "filling"
        self._is_frozen = False
        self.is_dead = False
        """Every write fails, until `restore`."""

    def fill(self) -> None:
        """Use all free space."""
        with self._filling.open("wb") as file:
            for _ in range(100):
                stat = os.statvfs(self._powered.mount)
                free = stat.f_bavail * stat.f_frsize
                if not free:
                    return
                with contextlib.suppress(OSError):
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, free)

    def freeze(self) -> None:
        """Let every write wait until `thaw`, also one that was begun."""
        self._control(FIFREEZE)
        self._is_frozen = True

    def thaw(self) -> None:
        """Let writes continue."""
        if self._is_frozen:
            self._control(FITHAW)
            self._is_frozen = False

    def kill(self) -> None:
        """Let every write fail from now on. What was not synced is lost."""
        self._powered.cut()
        self.is_dead = True

    def restore(self) -> None:
        """Mount it again after `kill`. No process may use it.

        A mount namespace of somebody else may hold the dead file system still, and a mount of the same image would be that one. So it is
        a copy of the image.
        """
        self._unmount()
        image = self._powered.image
        copy = image.with_suffix(".copy")
        subprocess.run(["cp", "--sparse=always", str(image), str(copy)], check=True)
        copy.replace(image)
        self._powered.power_on()
        self.is_dead = False

    def heal(self) -> None:
        """Make room, and let writes continue. A dead disk stays dead."""
        self.thaw()
        if not self.is_dead:
            self._filling.unlink(missing_ok=True)

    def remove(self) -> None:
        """Unmount it, and remove its image."""
        self.thaw()
        self._unmount()
        self._powered.image.unlink()

    def _control(self, request: int) -> None:
        handle = os.open(self._powered.mount, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, request, 0)
        finally:
            os.close(handle)

    def _unmount(self) -> None:
        until = time.monotonic() + UNMOUNT_SECONDS_MAX
        while True:
            try:
                self._powered.unmount()
            except subprocess.CalledProcessError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
            else:
                return
