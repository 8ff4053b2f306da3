"""Files and folders that appear whole or not at all, and locks, on every operating system."""

from __future__ import annotations

import glob
import io
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal

from filelock import FileLock, Timeout, UnixFileLock


@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: Literal["w", "wb"] = "w") -> Iterator[IO[Any]]:
    """A file beside ``path`` that replaces it at the end; on an error it is gone and ``path`` is as it was.

    Text is UTF-8 and its line ends are written as they are, so a file is the same on every system.
    """
    target = Path(path)
    part = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    try:
        with open(part, mode, **text) as file:  # type: ignore[call-overload]
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    _sync_folder(target.parent)


def remove_parts(path: str | os.PathLike[str]) -> None:
    """Remove what killed processes left of writing ``path``; only for who holds a lock that guards it."""
    for part in glob.glob(f"{glob.escape(os.fspath(path))}.*.part"):
        Path(part).unlink(missing_ok=True)


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
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
            _sync_folder(path) if path.is_dir() else _sync(path, os.O_RDWR)
        if target.exists():
            for path in part.iterdir():
                os.replace(path, target / path.name)
            _sync_folder(target)
        else:
            os.rename(part, target)
        _sync_folder(target.parent)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(path: Path) -> None:
    """Make names last as contents do; Windows and some file systems cannot, and everything is in place."""
    with suppress(OSError):
        _sync(path, os.O_RDONLY)


class Lock:
    """The operating system's lock on ``<path>.lock``: one process holds it, and if that dies nobody does.

    Args:
        path: what it guards.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._lock = FileLock(f"{os.fspath(path)}.lock", thread_local=False)

    def acquire(self, wait: bool = True) -> bool:
        """Hold it until :meth:`release`; without waiting, False if somebody else does."""
        try:
            self._lock.acquire(blocking=wait)
        except Timeout:
            return False
        return True

    def release(self) -> None:
        """Let others have it; its file goes too, under Windows by ``filelock`` itself."""
        if isinstance(self._lock, UnixFileLock):
            Path(self._lock.lock_file).unlink(missing_ok=True)
        self._lock.release()

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def use_utf8_streams() -> None:
    """Standard input and output in UTF-8, which is not what Windows pipes have."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(encoding="utf-8")
