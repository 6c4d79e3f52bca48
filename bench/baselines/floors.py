"""Floors that no program can beat: fdatasync of 4 KiB without other writes, and a plain read with CRC32.

    python bench/baselines/floors.py [--seconds 3] [--megabytes 512] [--directory DIR]

The file is written completely before, as the store zeroes its segments ahead: then an fdatasync does not wait for a journal.
The read is of pages in memory. echo.py measures the framed echo, http_send.py the empty endpoint.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from zlib import crc32

from measuring.system import percentile, provenance
from reporting.figures import figure

BLOCK = 4096
AHEAD_BYTES = 64 << 20
CHUNK = 1 << 20


def fdatasync(file: int, seconds: float) -> list[float]:
    """Write blocks one after the other and sync each; return the seconds of each fdatasync, sorted."""
    took: list[float] = []
    until, place = time.perf_counter() + seconds, 0
    while time.perf_counter() < until:
        os.pwrite(file, b"x" * BLOCK, place)
        place = (place + BLOCK) % AHEAD_BYTES
        began = time.perf_counter()
        os.fdatasync(file)
        took.append(time.perf_counter() - began)
    return sorted(took)


def read_with_crc(path: Path, size: int) -> float:
    """Return the seconds of reading all bytes with CRC32."""
    began = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while data := file.read(CHUNK):
            crc32(data)
            size -= len(data)
    assert size == 0
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--megabytes", type=int, default=512, help="size of the read")
    parser.add_argument("--directory", help="folder of the files (default: the system's)")
    options = parser.parse_args()
    print(f"floors; {provenance('as each line says')}")
    with tempfile.TemporaryDirectory(prefix="gantry-floors-", dir=options.directory) as folder:
        path = Path(folder) / "file"
        path.write_bytes(bytes(AHEAD_BYTES))
        file = os.open(path, os.O_RDWR)
        os.fsync(file)
        took = fdatasync(file, options.seconds)
        os.close(file)
        words = f"p50 {percentile(took, 0.5) * 1e6:.0f} us, p99 {percentile(took, 0.99) * 1e6:.0f} us"
        figure("floors.fdatasync", len(took) / sum(took), "/s", words=words)
        with path.open("wb") as written:
            for _ in range(options.megabytes):
                written.write(os.urandom(CHUNK))
        read_with_crc(path, options.megabytes * CHUNK)
        rate = options.megabytes * CHUNK / 1e6 / read_with_crc(path, options.megabytes * CHUNK)
        figure("floors.read with CRC", rate, "MB/s")


if __name__ == "__main__":
    main()
