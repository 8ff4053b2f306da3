"""Files of histories, a window at a time: JSON lines, CSV and Parquet."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from recbole_asarrec.errors import UserError
from recbole_asarrec.inference import parquet
from recbole_asarrec.inference.window import WINDOW, WINDOW_BYTES, History, Layout, Source, Window, kind_of

_TEXT = frozenset({str})
_LONGEST_FIELD = 2**31 - 1  # of a CSV file


@contextmanager
def open_histories(name: str) -> Iterator[Source]:
    """The histories of a file, or of JSON lines on standard input for ``-``.

    Raises:
        UserError: the file is not there, cannot be read or is not what its name says.
    """
    kind = kind_of(name)
    if name == "-":
        yield text_source(sys.stdin, name, kind)
        return
    path = Path(name)
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "does not exist"
        raise UserError(f"The file '{name}' {problem}; name a .jsonl, .csv or .parquet file of histories.")
    try:
        binary = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise UserError(f"The file '{name}' cannot be read ({error.strerror}).") from error
    with binary:
        if kind == ".parquet":
            yield parquet.source(binary, name)
        else:
            lines = io.TextIOWrapper(binary, encoding="utf-8-sig", newline="")
            yield text_source(lines, name, kind, path.stat().st_size)


def one_history(items: Sequence[str]) -> Source:
    """A single history, of user 1."""
    return text_source(io.StringIO(json.dumps(items)), "--history", ".jsonl")


def text_source(lines: TextIO, name: str, kind: str, total: int | None = None) -> Source:
    """The histories of an open file of JSON lines or CSV; a broken line is named by its number."""
    if kind == ".jsonl":
        return Source(Layout(name, kind), _decoded(_cut_lines(lines), name), total)
    csv.field_size_limit(_LONGEST_FIELD)
    taken: list[str] = []  # lines since the last window
    table = csv.reader(_noted(lines, taken))
    try:
        columns = tuple(next(table, ()))
    except (UnicodeDecodeError, csv.Error) as error:
        raise _unreadable(error, name, table.line_num) from error
    if not {"user", "items"} <= set(columns):
        raise UserError(f"The first line of '{name}' must name the columns user,items.")
    return Source(Layout(name, kind, columns), _decoded(_cut_table(table, taken, name), name), total)


def parse(window: Window, layout: Layout) -> Iterator[History]:
    """User and items of each history of a window.

    Raises:
        UserError: naming the line or row that is none.
    """
    if layout.kind == ".parquet":
        return parquet.parse(window, layout.name)
    lines = io.StringIO(window.body.decode(), newline="")
    return _from_csv(lines, layout) if layout.kind == ".csv" else _from_json(lines, window.first, layout.name)


def _unreadable(error: Exception, name: str, line: int) -> UserError:
    if isinstance(error, UnicodeDecodeError):
        return UserError(f"The file '{name}' is not UTF-8 text; save it as UTF-8.")
    return UserError(f"Line {line} of '{name}' is not CSV: {error}.")


def _decoded(windows: Iterable[Window], name: str) -> Iterator[Window]:
    try:
        yield from windows
    except UnicodeDecodeError as error:
        raise _unreadable(error, name, 0) from error


def _window(lines: list[str], first: int) -> Window:
    body = "".join(lines).encode()
    return Window(first, body, len(body))


def _cut_lines(lines: Iterable[str]) -> Iterator[Window]:
    """A window of JSON lines is at most so many of them, or so many bytes."""
    taken: list[str] = []
    first, size = 1, 0
    for line in lines:
        taken.append(line)
        size += len(line)
        if len(taken) == WINDOW or size >= WINDOW_BYTES:
            yield _window(taken, first)
            first, size = first + len(taken), 0
            taken.clear()
    if taken:
        yield _window(taken, first)


def _noted(lines: Iterable[str], taken: list[str]) -> Iterator[str]:
    for line in lines:
        taken.append(line)
        yield line


def _cut_table(table: Iterator[list[str]], taken: list[str], name: str) -> Iterator[Window]:
    """The same of CSV, whose rows may have several lines; ``taken`` is what the table has read."""
    taken.clear()
    first, rows, lines, size = 2, 0, 0, 0
    try:
        for _ in table:
            rows += 1
            size += sum(map(len, taken[lines:]))
            lines = len(taken)
            if rows == WINDOW or size >= WINDOW_BYTES:
                yield _window(taken, first)
                first, rows, lines, size = first + lines, 0, 0, 0
                taken.clear()
    except csv.Error as error:
        raise _unreadable(error, name, table.line_num) from error  # type: ignore[attr-defined]
    if taken:
        yield _window(taken, first)


def _from_csv(lines: TextIO, layout: Layout) -> Iterator[History]:
    csv.field_size_limit(_LONGEST_FIELD)
    for row in csv.DictReader(lines, fieldnames=layout.columns):
        yield row["user"] or "", (row["items"] or "").split()


def _from_json(lines: TextIO, first: int, name: str) -> Iterator[History]:
    for number, line in enumerate(lines, first):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"Line {number} of '{name}' is not JSON: {error}.") from error
        user, items = (
            (record.get("user", number), record.get("history"))
            if isinstance(record, dict)
            else (number, record)
        )
        if not isinstance(items, list):
            raise UserError(f"Line {number} of '{name}' must be a list of items or have one under 'history'.")
        if not _TEXT.issuperset(map(type, items)):
            items = [_text(item, number, name) for item in items]
        yield str(user), items


def _text(item: object, number: int, name: str) -> str:
    if isinstance(item, bool) or not isinstance(item, (str, int, float)):
        raise UserError(f"Line {number} of '{name}' has the item {item!r}; an item is a text or a number.")
    return str(item)
