"""What a measurement was made on, and the arguments all measurements share."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import torch

from recbole_asarrec.errors import UserError
from recbole_asarrec.shell import typed
from recbole_asarrec.version import __version__


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The data, how often, and where the result goes."""
    parser.add_argument("--dataset", default="ml-100k", help="name of a data set (default: ml-100k)")
    parser.add_argument("--data_path", default="dataset", help="folder above it (default: dataset)")
    parser.add_argument("--rounds", type=int, default=3, help="times everything is measured (default: 3)")
    add_output(parser)


def add_output(parser: argparse.ArgumentParser, beside: str = "") -> None:
    """Where the result goes; refused at once where it could not be written after hours."""
    parser.add_argument("-o", "--output", type=_new_file, help=f"a .json file for the whole result{beside}")


def _new_file(text: str) -> Path:
    path = Path(text).absolute()
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"'{text}' is a folder; name a .json file")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder for '{text}'; make it first")
    return path


def command() -> str:
    """What was typed to start this process."""
    return typed(["python", "-m", "recbole_asarrec", *sys.argv[1:]])


def save(output: Path | None, content: Mapping[str, Any]) -> None:
    """Write a result with the command and the machine it was made by and on, if it is asked for."""
    if output is not None:
        whole = {"command": command(), "machine": describe(), **content}
        output.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def add_sample(parser: argparse.ArgumentParser) -> None:
    """For measurements that need not take all users."""
    parser.add_argument("--sample", type=float, default=1.0, help="share of the users (default: 1)")


def data_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """What a worker's job must know of the data that these arguments name.

    Raises:
        UserError: no users would be left, or more than there are.
    """
    if not 0 < arguments.sample <= 1:
        raise UserError(f"--sample must be above 0 and at most 1, not {arguments.sample:g}.")
    path = str(Path(arguments.data_path).absolute())
    return {"dataset": arguments.dataset, "data_path": path, "sample": arguments.sample}


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
            return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain") else "")
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
