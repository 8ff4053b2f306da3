"""What a raw format is: how its lines are told from others, and how one of them is read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

from recbole_asarrec.errors import DataError
from recbole_asarrec.prepare.lines import read_lines

Record = TypeVar("Record", covariant=True)
Event = tuple[str, str, float]  # user, item, time
Title = tuple[str, str]  # item, its name

_SAMPLE = 100  # lines that tell the format
_NAMED = 5  # bad lines that are named by number
# characters that RecBole's reader trips over; halves of UTF-16 pairs cannot be written, U+FFFD was no UTF-8
_UNFIT = re.compile('[\x00-\x1f\x7f"\ud800-\udfff\ufffd]')
# words that RecBole's reader takes for a missing value, and its own name of the empty place
MISSING = frozenset((
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>",
    "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null", "[PAD]",
))  # fmt: skip


@dataclass(frozen=True)
class Format(Generic[Record]):
    """A raw format.

    Attributes:
        name: as ``--format`` takes it.
        about: what the file is, for people.
        fits: whether the first lines of a file look like it.
        parser: makes a function of a line that gives its records, or raises ValueError for a bad line; it
            may remember earlier lines.
        timed: the records have times; without, the order of the lines is the order of events.
    """

    name: str
    about: str
    fits: Callable[[Sequence[str]], bool]
    parser: Callable[[], Callable[[str], Iterable[Record]]]
    timed: bool = True


def most(pattern: str) -> Callable[[Sequence[str]], bool]:
    """At least half of the lines match."""
    matches = re.compile(pattern).match
    return lambda lines: 2 * sum(bool(matches(line)) for line in lines) >= len(lines)


def token(value: Any) -> str:
    """A user or item as RecBole can read it back; ValueError otherwise."""
    if not isinstance(value, str):
        raise ValueError("not a text")
    text = value.strip()
    if not text or text in MISSING or _UNFIT.search(text):
        raise ValueError("empty, or not readable by RecBole")
    return text


def moment(value: Any) -> float:
    """A finite time; ValueError otherwise."""
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        raise ValueError("not a time")
    try:
        time = float(value)
    except OverflowError as error:
        raise ValueError("not a time") from error
    if not math.isfinite(time):
        raise ValueError("not a time")
    return time


def choose(path: Path, formats: Mapping[str, Format[Record]], name: str | None) -> Format[Record]:
    """The format of this name, or the first whose lines the file's first lines look like.

    Raises:
        DataError: they look like none of them.
    """
    if name is not None:
        return formats[name]
    sample = [text for _, text in islice(read_lines(path), _SAMPLE) if text is not None]
    for known in formats.values():
        if sample and known.fits(sample):
            return known
    choices = "; ".join(f"{known.name} ({known.about})" for known in formats.values())
    raise DataError(f"'{path}' looks like none of the known formats: {choices}.")


@dataclass
class Reading(Generic[Record]):
    """One pass over a raw file, and what became of its lines."""

    path: Path
    format: Format[Record]
    good: int = 0
    bad: int = 0
    first_bad: list[int] = field(default_factory=list)

    def records(self) -> Iterator[Record]:
        """Every record of the file.

        Raises:
            DataError: at the end, if no line or less than half of them could be read.
        """
        parse = self.format.parser()
        for number, text in read_lines(self.path):
            try:
                if text is None:
                    raise ValueError("too long")
                found = parse(text)
            except ValueError:
                self.bad += 1
                if len(self.first_bad) < _NAMED:
                    self.first_bad.append(number)
                continue
            self.good += 1
            yield from found
        if self.good == 0 or self.bad > self.good:
            raise DataError(f"'{self.path}' is not {self.format.about}: {self.summary()}; is --format right?")

    def summary(self) -> str:
        """Lines read and passed over, in words."""
        text = f"{self.good:,} lines read"
        if self.bad:
            more = ", …" if self.bad > len(self.first_bad) else ""
            text += f", {self.bad:,} bad ones passed over (line {', '.join(map(str, self.first_bad))}{more})"
        return text
