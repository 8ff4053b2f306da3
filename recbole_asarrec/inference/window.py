"""A window: some histories of a file, as they stand there.

Cutting a file into windows is quick and done in one process; parsing them is not, and is done wherever a
window is answered. Where windows end depends on the file alone, so that the same histories are always
answered together, and in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

History = tuple[str, Sequence[str]]  # user, items
KINDS = (".jsonl", ".csv", ".parquet")
WINDOW = 4096  # histories, at most
WINDOW_BYTES = 1 << 22  # a window of long lines ends here


class Window(NamedTuple):
    """Some histories as they stand in their file.

    Attributes:
        first: number of the first line, or of the first row of a table, counted from 1.
        body: lines of text in UTF-8, or an Arrow stream.
        size: how much of the file this is, in bytes of text or rows of a table.
    """

    first: int
    body: bytes
    size: int


class Layout(NamedTuple):
    """What it takes to parse a window.

    Attributes:
        name: of the file, for messages.
        kind: one of :data:`KINDS`.
        columns: of a CSV file.
    """

    name: str
    kind: str
    columns: tuple[str, ...] = ()


class Source(NamedTuple):
    """Histories from the first to the last.

    Attributes:
        layout: how windows are parsed.
        windows: one after another, once.
        total: the sum of their sizes, where it is known beforehand.
    """

    layout: Layout
    windows: Iterator[Window]
    total: int | None


def kind_of(name: str) -> str:
    """The format that a file's name ends with; JSON lines unless it is another."""
    return next((kind for kind in KINDS if name.lower().endswith(kind)), ".jsonl")
