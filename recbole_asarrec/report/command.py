"""``python -m recbole_asarrec report``: one page, and the tables as files beside it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from recbole_asarrec.errors import DataError, UserError
from recbole_asarrec.experiments.records import read
from recbole_asarrec.files import atomic_write
from recbole_asarrec.report.contents import contents
from recbole_asarrec.report.formats import (
    CSV_HEAD,
    MARK,
    latex,
    leaderboard_csv,
    leaderboard_json,
    markdown,
)
from recbole_asarrec.report.page import page

DESCRIPTION = (
    "Reads the runs of one or more results folders and writes a self-contained page; beside it the tables "
    "as .md and .tex, and leaderboard.json and leaderboard.csv. A report made earlier is replaced, any other "
    "file only with --overwrite."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``report``."""
    parser.description = DESCRIPTION
    parser.add_argument("results", nargs="+", type=Path, help="folders that a grid wrote its runs to")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("report.html"), help="the page (default: report.html)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace files that are no reports")


def _made_here(path: Path) -> bool:
    with open(path, "rb") as file:
        beginning = file.read(2000).decode("utf-8", errors="replace")
    return MARK in beginning or beginning.startswith(CSV_HEAD)


def _refuse(targets: Mapping[Path, object], overwrite: bool) -> None:
    for path in targets:
        if not path.absolute().parent.is_dir():
            raise UserError(f"The folder '{path.absolute().parent}' does not exist; make it first.")
        if path.is_dir():
            raise UserError(f"'{path}' is a folder; name a file for the page.")
        if path.exists() and not overwrite and not _made_here(path):
            raise UserError(
                f"The file '{path}' exists and is no report; choose another name or add --overwrite."
            )


def write(path: Path, text: str) -> None:
    """Write a file whole, or leave the old one."""
    try:
        with atomic_write(path) as file:
            file.write(text)
    except OSError as error:
        raise DataError(f"The file '{path}' could not be written: {error.strerror}.") from error


def run(arguments: argparse.Namespace) -> None:
    """The command."""
    target: Path = arguments.output
    if target.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"The page '{target}' must end in .html; its tables are written beside it.")
    makers = {
        target: page,
        target.with_suffix(".md"): lambda found: markdown([*found.tables, *found.recipes]),
        target.with_suffix(".tex"): lambda found: latex([*found.tables, *found.recipes]),
        target.with_name("leaderboard.json"): lambda found: leaderboard_json(found.entries),
        target.with_name("leaderboard.csv"): lambda found: leaderboard_csv(found.entries),
    }
    _refuse(makers, arguments.overwrite)
    records = [record for folder in arguments.results for record in read(folder)]
    if not records:
        folders = "', '".join(map(str, arguments.results))
        raise DataError(f"There is no finished run in '{folders}'; let a grid finish one.")
    found = contents(records)
    if not found.tables:
        raise DataError("No run holds ranks of test items, so there is nothing to report; run a grid again.")
    files = {path: make(found) for path, make in makers.items()}
    for path, text in files.items():
        write(path, text)
    print(f"{len(found.records)} runs, {len(found.tables)} tables: {', '.join(map(str, files))}")
