"""Tell glibc to keep freed memory: a training step frees and takes the same large blocks over and over."""

from __future__ import annotations

import ctypes
import platform

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -2, -3, -4


def keep_freed_memory() -> bool:
    """Serve every allocation from the heap and give nothing back to the system until the process ends.

    For programs, not for libraries: it changes the whole process. Where libc is not glibc nothing happens.

    Returns:
        Whether glibc took the settings.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    settings = {_MMAP_MAX: 0, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 64 << 20}
    return all([mallopt(name, value) for name, value in settings.items()])
