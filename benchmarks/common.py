"""The arguments that measurements share, and how a result is saved."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recbole_asarrec.errors import UserError
from recbole_asarrec.experiments import machine
from recbole_asarrec.shell import typed

ROOT = Path(__file__).parent.parent


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The data, how often, and where the result goes."""
    parser.add_argument("--dataset", default="ml-100k", help="name of a dataset (default: ml-100k)")
    parser.add_argument("--data_path", default="dataset", help="folder above it (default: dataset)")
    parser.add_argument("--rounds", type=int, default=3, help="times everything is measured (default: 3)")
    add_output(parser)


def add_output(parser: argparse.ArgumentParser, beside: str = "") -> None:
    """Where the result goes; refused at once where it could not be written after hours."""
    parser.add_argument("-o", "--output", type=_new_file, help=f"a .json file for the whole result{beside}")


def _new_file(text: str) -> Path:
    path = Path(text).absolute()
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"'{text}' is a folder; name a .json file")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder for '{text}'; make it first")
    return path


def command() -> str:
    """What was typed to start this process."""
    return typed(["python", "-m", "benchmarks", *sys.argv[1:]])


def save(output: Path | None, content: Mapping[str, Any]) -> None:
    """Write a result with the command and the machine it was made by and on, if it is asked for."""
    if output is not None:
        whole = {"command": command(), "machine": machine.describe(), **content}
        output.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def add_sample(parser: argparse.ArgumentParser) -> None:
    """For measurements that need not take all users."""
    parser.add_argument("--sample", type=float, default=1.0, help="share of the users (default: 1)")


def data_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """What a worker's job must know of the data that these arguments name.

    Raises:
        UserError: no users would be left, or more than there are.
    """
    if not 0 < arguments.sample <= 1:
        raise UserError(f"--sample must be above 0 and at most 1, not {arguments.sample:g}.")
    path = str(Path(arguments.data_path).absolute())
    return {"dataset": arguments.dataset, "data_path": path, "sample": arguments.sample}
