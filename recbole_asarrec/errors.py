"""What a user can put right. Each message is one sentence that names what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """A mistake in what came from outside; command lines print it without a traceback and exit with 2."""


class ConfigError(UserError):
    """A configuration key that does not exist, or a value that does not fit it."""


class DataError(UserError):
    """Atomic files that are missing, broken or leave nothing to train on."""


class CheckpointError(UserError):
    """A checkpoint that is unreadable, unsafe or made for something else."""


class ExportError(UserError):
    """A model that cannot be exported, or an exported folder that is incomplete, changed or unsafe."""


class DivergedError(UserError):
    """Training that left the finite numbers; names the term, the batch and the keys that calm it."""


def nearest(word: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` for the closest known word, or nothing."""
    by_lower = {name.lower(): name for name in known}
    match = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f" (did you mean '{by_lower[match[0]]}'?)" if match else ""
