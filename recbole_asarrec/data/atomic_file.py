"""An atomic file of RecBole as text: its first line, its rows, and what is wrong with a line of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recbole_asarrec.errors import DataError

_LONGEST_HEADER = 1_000_000
_BLOCK = 1 << 20  # characters looked at together
_TYPES = ("token", "token_seq", "float", "float_seq")


def encoding_of(config: Any) -> str:
    """How atomic files are written."""
    return config["encoding"] or "utf-8"


def read_header(file: Path, separator: str, encoding: str) -> dict[str, str]:
    """The fields of an atomic file with their types, from its first line."""
    try:
        with open(file, encoding=encoding) as lines:
            header = lines.readline(_LONGEST_HEADER).rstrip("\n")
    except UnicodeError as error:
        raise DataError(_not_text(file, encoding)) from error
    except OSError as error:
        raise DataError(f"The file '{file}' cannot be read ({error.strerror}).") from error
    if not header.strip():
        raise DataError(f"The file '{file}' is empty; its first line must name the columns.")
    if header.startswith("\ufeff"):
        raise DataError(f"The file '{file}' begins with a byte order mark; set encoding: utf-8-sig.")
    fields: dict[str, str] = {}
    for column in header.split(separator):
        field, _, kind = column.partition(":")
        if not field or kind not in _TYPES:
            shown = column if len(column) < 80 else f"{column[:80]}…"
            raise DataError(
                f"The first line of '{file}' must name columns as 'field:type' with a type of "
                f"{', '.join(_TYPES)}, separated by {separator!r}, but has {shown!r}."
            )
        if field in fields:
            raise DataError(f"The first line of '{file}' names the column '{field}' twice.")
        fields[field] = kind
    return fields


def _not_text(file: Path, encoding: str) -> str:
    return f"The file '{file}' is not {encoding} text; save it as {encoding} or set the key encoding."


def explain_unreadable(files: Sequence[Path], config: Any, error: Exception) -> DataError:
    """What is wrong with atomic files that pandas could not read."""
    separator, encoding = config["field_separator"], encoding_of(config)
    for file in files:
        if not file.is_file():
            return DataError(f"The file '{file}' does not exist.")
        fields = read_header(file, separator, encoding)
        try:
            with open(file, encoding=encoding) as lines:
                next(lines)
                for number, line in enumerate(lines, 2):
                    if problem := _problem(line.rstrip("\n"), fields, separator):
                        return DataError(f"Line {number} of '{file}' {problem}.")
        except UnicodeError:
            return DataError(_not_text(file, encoding))
    said = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    return DataError(f"The file '{files[0]}' cannot be read: {said}.")


def _problem(line: str, fields: dict[str, str], separator: str) -> str:
    """What is wrong with one line of an atomic file, or nothing."""
    values = line.split(separator)
    if line.strip() and len(values) > len(fields):
        return f"has {len(values)} values where the first line names {len(fields)} columns"
    for value, (field, kind) in zip(values, fields.items()):
        try:
            if kind == "float" and math.isinf(float(value or "nan")):
                return f"has no finite number in the column '{field}'"
            if kind == "float_seq":
                [float(part) for part in value.split()]
        except ValueError:
            shown = value if len(value) < 80 else f"{value[:80]}…"
            return f"has {shown!r} in the column '{field}', which must be a number"
    return ""


def count_rows(file: Path, separator: str, encoding: str) -> int:
    """Lines that are not blank, but the first.

    Raises:
        DataError: a line has a NUL byte, or more values than the first; pandas passes over the latter.
    """
    rows, number = 0, 2
    with open(file, encoding=encoding) as lines:
        most = lines.readline().count(separator)
        while block := lines.readlines(_BLOCK):
            text = "".join(block)
            if most and text.count(separator) == most * len(block) and "\0" not in text:
                rows += len(block)
            else:
                each = enumerate(block, number)
                rows += sum(_is_row(line, n, file, separator, most) for n, line in each)
            number += len(block)
    return rows


def _is_row(line: str, number: int, file: Path, separator: str, most: int) -> bool:
    """Whether a line of an atomic file is more than blank."""
    if "\0" in line:
        raise DataError(f"Line {number} of '{file}' has a NUL byte; write the file anew.")
    values = line.count(separator) + 1
    if values > most + 1 and '"' not in line:
        raise DataError(
            f"Line {number} of '{file}' has {values} values where the first line names {most + 1} columns."
        )
    return line.strip(" \t\r\n".replace(separator, "")) != ""
