"""Real processes and disks for fault campaigns: started apart, waited for with a limit, killed with kin."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from recbole_asarrec.errors import UserError

PATIENCE = 600  # seconds until a process counts as hung


class Ended(NamedTuple):
    """How a process ended: its exit code, what it showed, and how long it was waited for."""

    code: int
    shown: str
    seconds: float

    def says(self, pattern: str) -> bool:
        """Whether the process failed in words and without a traceback."""
        return self.code in (1, 2) and "Traceback" not in self.shown and bool(re.search(pattern, self.shown))

    @property
    def last_line(self) -> str:
        """The end of what it showed, without this machine's folders."""
        return re.sub(r"/[\w./-]*/", "", (self.shown.strip().splitlines() or [""])[-1])[:300]


def start(command: list[str], folder: Path, limit: int | None = None) -> subprocess.Popen:
    """Start a command in ``folder``, with at most ``limit`` bytes of address space.

    Raises:
        UserError: under Windows, which has neither such limits nor process groups to kill.
    """
    if sys.platform == "win32":
        raise UserError("Processes are killed and starved as POSIX has it; use Linux or macOS, or WSL.")
    import resource

    def confine() -> None:
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    return subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # its workers die with it
        preexec_fn=confine,
    )


def kill(process: subprocess.Popen) -> None:
    """End a process and all that it started, at once."""
    if sys.platform != "win32":
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def wait(process: subprocess.Popen, seconds: float = PATIENCE) -> Ended | None:
    """How a process ended; nothing if it did not, and was killed."""
    began = time.monotonic()
    try:
        shown, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        kill(process)
        return None
    return Ended(process.returncode, shown, time.monotonic() - began)


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[str]:
    """A file system of its own at ``folder``; gives the reason where that is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True
    )
    if done.returncode:
        yield f"not tried: {done.stderr.strip() or 'mount failed'}"
        return
    try:
        yield ""
    finally:
        subprocess.run(["umount", str(folder)], check=False)


def workers(parent: int) -> list[int]:
    """Processes that ``parent`` spawned to train."""
    found = []
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(parent).children():
            with suppress(psutil.Error):
                if "spawn_main" in " ".join(child.cmdline()):
                    found.append(child.pid)
    return sorted(found)


def free_port() -> int:
    """A port of this machine that nobody listens to."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])
