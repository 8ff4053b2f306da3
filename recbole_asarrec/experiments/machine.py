"""The machine that a result was made on."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import torch

from recbole_asarrec.version import __version__


def cores() -> int:
    """How many this process may use: in a container or under a scheduler not all that there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe() -> dict[str, Any]:
    """Processor, cores, memory and versions, as plain data."""
    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = [
            line for line in info.read_text(encoding="utf-8").splitlines() if line.startswith("model name")
        ]
        model = lines[0].partition(":")[2].strip() if lines else model
    return {
        "processor": model,
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "pandas": pd.__version__,
        "recbole_asarrec": __version__,
        "commit": _commit(),
    }


def _commit() -> str | None:
    """The commit of a source tree, with ``+`` where it has changes; nothing for an installed package."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=here, capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        if git("ls-files", __file__):
            changes = git("status", "--porcelain", "--", ".", "../properties")  # results are no change
            return git("rev-parse", "--short", "HEAD") + ("+" if changes else "")
    except (OSError, subprocess.CalledProcessError):
        pass
    return None


def peak_memory_gib() -> float:
    """The most memory this process ever held."""
    try:
        import resource
    except ImportError:  # Windows
        now = psutil.Process().memory_info()
        return getattr(now, "peak_wset", now.rss) / 2**30
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # type: ignore[attr-defined]
    return peak * unit / 2**30
