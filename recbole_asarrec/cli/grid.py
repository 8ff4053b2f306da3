"""``grid``: run a grid, however often it is interrupted."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from recbole_asarrec.errors import UserError
from recbole_asarrec.experiments.grid import check, expand, read_grid
from recbole_asarrec.experiments.runner import (
    add_jobs,
    finished,
    how_to_resume,
    name,
    own_keys,
    run_all,
    summary,
    varying,
)

__all__ = ["add_arguments", "how_to_resume", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``grid``."""
    parser.description = (
        "Every finished run is one line of runs.jsonl in the results folder. Stopped or killed, the same "
        "command resumes: it loses at most the running epoch and repeats nothing."
    )
    parser.add_argument("--grid", required=True, help="a YAML file; README, section Experiments, shows one")
    parser.add_argument("--data_path", default="dataset", help="folder above the data (default: dataset)")
    parser.add_argument("-o", "--output", default="results", help="results folder (default: results)")
    parser.add_argument("--list", action="store_true", help="check the grid and list its runs")
    parser.add_argument(
        "--validation",
        action="store_true",
        help="leave the test data unread, for choosing between settings; keeps no weights",
    )
    add_jobs(parser)


def run(arguments: argparse.Namespace) -> None:
    """The command."""
    sys.argv = sys.argv[:1]  # RecBole reads the command line too
    grid = read_grid(arguments.grid)
    data_path = str(Path(arguments.data_path).absolute())
    specs = expand(grid)
    check(grid, data_path)
    if arguments.list:
        names = varying(specs)
        print("\n".join(f"{spec.run}  {name(spec)} {own_keys(spec, names)}".rstrip() for spec in specs))
        return
    folder, keys = Path(arguments.output), {"data_path": data_path}
    test = not arguments.validation
    untested = {run for run, record in finished(folder).items() if not record.test}
    if test and any(spec.run in untested for spec in specs):
        raise UserError(f"'{folder}' holds runs of this grid without test figures; choose another by -o.")
    records, failures = run_all(specs, folder, keys, test, keep_weights=test, jobs=arguments.jobs)
    print(summary(records.values()))
    if failures:
        raise UserError(f"{len(failures)} of {len(specs)} runs failed, the first: {failures[0]}")
