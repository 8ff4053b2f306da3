"""Commands as a user would type them."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence


def typed(words: Sequence[str]) -> str:
    """One line of words, quoted where this system's shell needs it."""
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)
