"""Text files that papers share: a line for each user, or a line for each interaction; oldest first."""

from __future__ import annotations

from collections.abc import Sequence

from recbole_asarrec.prepare.formats import Event, Format, most, token

_NUMBERS = most(r"\s*\d+(\s+\d+)+\s*$")


def _fields(line: str) -> list[str]:
    user, item, *more = line.split()
    return [token(user), token(item), *map(token, more)]


def _sequence(line: str) -> list[Event]:
    user, *items = _fields(line)
    return [(user, item, 0.0) for item in items]


def _pair(line: str) -> list[Event]:
    user, item = _fields(line)
    return [(user, item, 0.0)]


def _looks_like_pairs(lines: Sequence[str]) -> bool:
    return _NUMBERS(lines) and all(len(line.split()) == 2 for line in lines)


def _looks_like_sequences(lines: Sequence[str]) -> bool:
    """A user has one line: a table of three columns or more, where users come again, is something else."""
    users = {line.split()[0] for line in lines}
    return _NUMBERS(lines) and len(users) == len(lines)


PAIRS = Format(
    "pairs", "a line 'user item' for each interaction", _looks_like_pairs, lambda: _pair, timed=False
)
SEQUENCES = Format(
    "sequences",
    "a line 'user item item …' for each user",
    _looks_like_sequences,
    lambda: _sequence,
    timed=False,
)
