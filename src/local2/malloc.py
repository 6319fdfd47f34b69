"""Options of malloc in glibc. Other C libraries have none of them, and nothing is set there."""

import ctypes

M_MMAP_THRESHOLD = -3
"""Blocks of this many bytes and more are mapped one by one, and given back when they are freed."""
M_PERTURB = -6
"""Freed memory is filled with a byte."""


def set_malloc_option(option: int, value: int) -> None:
    """Set an option of this process."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(option, value)
