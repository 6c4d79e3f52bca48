"""Gives memory back to the machine after a peak: neither Python nor the C library does so by itself."""

import ctypes
import gc

_libc = ctypes.CDLL(None)


def give_back() -> None:
    """Free what only reference cycles hold, and give free pages back. Takes milliseconds, or more where much was held."""
    gc.collect()
    trim = getattr(_libc, "malloc_trim", None)  # glibc's alone
    if trim is not None:
        trim(0)
