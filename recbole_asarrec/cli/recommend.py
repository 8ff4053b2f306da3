"""Reading histories and writing recommendations, line by line."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import tee
from pathlib import Path
from typing import IO, Any, TextIO

from tqdm import tqdm

from recbole_asarrec.errors import UserError
from recbole_asarrec.files import atomic_write
from recbole_asarrec.inference import Recommended, Recommender

History = tuple[str, list[str]]  # user, items
_LONGEST_FIELD = 2**31 - 1  # of a CSV file


def read_histories(lines: TextIO, name: str, kind: str) -> Iterator[History]:
    """Parse JSON lines or CSV; a broken line is named by its number."""
    try:
        yield from _from_csv(lines, name) if kind == ".csv" else _from_json(lines, name)
    except UnicodeDecodeError as error:
        raise UserError(f"The file '{name}' is not UTF-8 text; save it as UTF-8.") from error


def _from_csv(lines: TextIO, name: str) -> Iterator[History]:
    csv.field_size_limit(_LONGEST_FIELD)
    table = csv.DictReader(lines)
    try:
        if not {"user", "items"} <= set(table.fieldnames or ()):
            raise UserError(f"The first line of '{name}' must name the columns user,items.")
        for row in table:
            yield row["user"] or "", (row["items"] or "").split()
    except csv.Error as error:
        raise UserError(f"Line {table.line_num} of '{name}' is not CSV: {error}.") from error


def _from_json(lines: TextIO, name: str) -> Iterator[History]:
    for number, line in enumerate(lines, 1):
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
        for item in items:
            if isinstance(item, bool) or not isinstance(item, (str, int, float)):
                raise UserError(
                    f"Line {number} of '{name}' has the item {item!r}; an item is a text or a number."
                )
        yield str(user), [str(item) for item in items]


def write_results(results: Iterable[tuple[str, Recommended]], lines: IO[str], kind: str) -> None:
    """Write JSON lines, or CSV with a line for each item."""
    if kind == ".csv":
        table = csv.writer(lines)
        table.writerow(["user", "rank", "item", "score"])
        for user, best in results:
            for rank, (item, score) in enumerate(zip(*best), 1):
                table.writerow([user, rank, item, f"{score:.6g}"])
        return
    for user, best in results:
        record = {"user": user, "items": best.items, "scores": [round(score, 6) for score in best.scores]}
        lines.write(json.dumps(record, ensure_ascii=False) + "\n")


@contextmanager
def _output(name: str, overwrite: bool) -> Iterator[IO[str]]:
    if name == "-":
        yield sys.stdout
        return
    target = Path(name)
    if target.exists() and not overwrite:
        raise UserError(f"The file '{target}' exists; choose another name or add --overwrite.")
    if target.is_dir():
        raise UserError(f"'{target}' is a folder; name a file for the output.")
    if not target.absolute().parent.is_dir():
        raise UserError(f"The folder '{target.absolute().parent}' does not exist; make it first.")
    with atomic_write(target) as lines:
        yield lines


@contextmanager
def _input(name: str) -> Iterator[TextIO]:
    if name == "-":
        yield sys.stdin
        return
    if not Path(name).is_file():
        kind = "is a folder" if Path(name).is_dir() else "does not exist"
        raise UserError(f"The file '{name}' {kind}; name a .jsonl or .csv file of histories.")
    try:
        lines = open(name, encoding="utf-8-sig", newline="")  # noqa: SIM115
    except OSError as error:
        raise UserError(f"The file '{name}' cannot be read ({error.strerror}).") from error
    with lines:
        yield lines


@contextmanager
def _histories(arguments: argparse.Namespace) -> Iterator[Iterable[History]]:
    """The one history of the command line, or those of a file."""
    if arguments.history:
        yield [("1", arguments.history)]
        return
    with _input(arguments.histories) as lines:
        yield read_histories(lines, arguments.histories, _kind(arguments.histories))


def _kind(name: str) -> str:
    return ".csv" if name.lower().endswith(".csv") else ".jsonl"


DESCRIPTION = (
    "Histories are JSON lines: ['item', …] or {'user': …, 'history': ['item', …]}, oldest item first; or CSV "
    "with the columns user,items, the items separated by spaces. The format follows the file's ending. "
    "Results are JSON lines {user, items, scores} or CSV user,rank,item,score."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``recommend``."""
    parser.description = DESCRIPTION
    parser.add_argument("checkpoint", type=Path, help="a .pth file that training saved")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "histories", nargs="?", help="a .jsonl or .csv file, or - for JSON lines on standard input"
    )
    source.add_argument("--history", nargs="+", metavar="ITEM", help="the items of one history, oldest first")
    parser.add_argument(
        "-o", "--output", default="-", help="a .jsonl or .csv file (default: standard output)"
    )
    parser.add_argument("-k", type=int, default=10, help="items for each history (default: 10)")
    parser.add_argument("--exclude-history", action="store_true", help="leave out what is in the history")
    parser.add_argument(
        "--unknown",
        choices=("skip", "refuse"),
        default="skip",
        help="items that training never saw (default: skip)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an output file that exists")
    parser.add_argument(
        "--trust-checkpoint", action="store_true", help="load a checkpoint that runs code when opened"
    )


def run(arguments: argparse.Namespace) -> None:
    """The command."""
    options: dict[str, Any] = {"k": arguments.k, "exclude_history": arguments.exclude_history}
    with _histories(arguments) as parsed, _output(arguments.output, arguments.overwrite) as sink:
        model = Recommender(arguments.checkpoint, trust_checkpoint=arguments.trust_checkpoint)
        named, bare = tee(tqdm(parsed, unit=" histories", disable=not sys.stderr.isatty()))
        best = model.stream((items for _, items in bare), unknown=arguments.unknown, **options)
        # the model's stream is asked first, so that it comes to its end and says what it skipped
        results = ((user, found) for found, (user, _) in zip(best, named))
        write_results(results, sink, _kind(arguments.output))
