"""Recommendations as JSON lines, CSV or Parquet, a window at a time."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from recbole_asarrec.inference.parquet import ParquetResults
from recbole_asarrec.inference.topk import TopItems


class Results(Protocol):
    """A format of results."""

    @property
    def header(self) -> bytes:
        """What comes before the first window."""

    def format(self, users: Sequence[str], best: TopItems) -> bytes:
        """The results of a window."""

    def finish(self, part: Path, target: Path) -> None:
        """Turn the file of all windows into ``target``, in one step."""


def results_of(kind: str, tokens: Sequence[str]) -> Results:
    """The format of an ending, for items with these tokens."""
    made: dict[str, type[JsonResults | CsvResults | ParquetResults]] = {
        ".jsonl": JsonResults,
        ".csv": CsvResults,
        ".parquet": ParquetResults,
    }
    return made[kind](tokens)


class JsonResults:
    """A line ``{"user": …, "items": […], "scores": […]}`` for each history.

    Args:
        tokens: of the items, by id.
    """

    header = b""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._quoted = [json.dumps(token, ensure_ascii=False) for token in tokens]

    def format(self, users: Sequence[str], best: TopItems) -> bytes:
        """The lines of a window."""
        quoted, lines = self._quoted, []
        scores = np.round(best.scores.double().numpy(), 6).tolist()
        for user, ids, values, count in zip(
            users, best.items.numpy().tolist(), scores, best.counts().tolist()
        ):
            names = ", ".join([quoted[one] for one in ids[:count]])
            figures = ", ".join(map(repr, values[:count]))
            name = json.dumps(user, ensure_ascii=False)
            lines.append(f'{{"user": {name}, "items": [{names}], "scores": [{figures}]}}\n')
        return "".join(lines).encode("utf-8", "backslashreplace")  # half a character is JSON as an escape

    def finish(self, part: Path, target: Path) -> None:
        """The windows are the file."""
        os.replace(part, target)


class CsvResults:
    """A line ``user,rank,item,score`` for each item.

    Args:
        tokens: of the items, by id.
    """

    header = b"user,rank,item,score\r\n"

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens

    def format(self, users: Sequence[str], best: TopItems) -> bytes:
        """The lines of a window."""
        text = io.StringIO(newline="")
        table, tokens = csv.writer(text), self._tokens
        for user, ids, values, count in zip(
            users, best.items.numpy().tolist(), best.scores.numpy().tolist(), best.counts().tolist()
        ):
            found = enumerate(zip(ids[:count], values[:count]), 1)
            table.writerows((user, rank, tokens[one], f"{score:.6g}") for rank, (one, score) in found)
        return text.getvalue().encode("utf-8", "backslashreplace")

    def finish(self, part: Path, target: Path) -> None:
        """The windows are the file."""
        os.replace(part, target)
