"""A folder that appears whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def staged(target: Path) -> Iterator[Path]:
    """An empty folder beside ``target``; what is in it at the end moves there, on an error it is gone.

    Where the target does not exist it appears in one step. Where it does, each file replaces its namesake and
    the others stay.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        part = beside / target.name
        part.mkdir()
        yield part
        for path in part.rglob("*"):
            _sync(path)
        _move(part, target)
        _sync(target.parent)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _move(part: Path, target: Path) -> None:
    if not target.exists():
        os.rename(part, target)
        return
    for path in part.iterdir():
        os.replace(path, target / path.name)
    _sync(target)
