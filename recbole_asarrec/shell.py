"""Commands as a user would type them."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def typed(words: Sequence[str]) -> str:
    """One line of words, quoted where this system's shell needs it."""
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def python_name() -> str:
    """How a user names this interpreter from the current folder."""
    executable, found = Path(sys.executable), shutil.which("python")
    if found and Path(found).absolute() == executable.absolute():
        return "python"
    here = Path.cwd()
    return str(executable.relative_to(here)) if executable.is_relative_to(here) else str(executable)
