"""``figures``: every recorded figure, whether it is of the current code, and the command that makes it again.

``figures.yaml`` lists them. A figure is stale if the code it depends on has changed since its commit, or if
that commit is not in this history; a grid's runs are judged one by one. ``--make`` makes what is missing, one
after another, and resumes what was interrupted; with ``--stale`` it makes stale figures again, too.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import yaml

from benchmarks.common import ROOT
from recbole_asarrec.errors import UserError, nearest
from recbole_asarrec.experiments.grid import expand, read_grid
from recbole_asarrec.experiments.records import RUNS
from recbole_asarrec.files import atomic_write

HERE = ROOT / "benchmarks"


class Figure(NamedTuple):
    """An entry of ``figures.yaml``.

    Attributes:
        name: what it is called on the command line.
        makes: a JSON file or a folder of runs, beside this file.
        code: files and folders of the source tree that it depends on.
        shown: pages that show it.
        minutes: what it takes on two cores.
        equal: by a commit, a later one at which seeded results were compared and are the same, bit for bit.
        measure: the words of ``python -m benchmarks …`` that make the file.
        grids: the grid files whose runs the folder holds.
        validation: its runs leave the test data unread.
        by_hand: why no command makes it by itself, if none does.
    """

    name: str
    makes: str
    code: Sequence[str]
    shown: Sequence[str]
    minutes: int
    equal: Mapping[str, str] = MappingProxyType({})
    measure: str | None = None
    grids: Sequence[str] = ()
    validation: bool = False
    by_hand: str | None = None

    @property
    def path(self) -> Path:
        """Where it is."""
        return HERE / self.makes

    def wanted(self) -> list[str]:
        """The runs that its grids ask for."""
        return list(dict.fromkeys(spec.run for grid in self.grids for spec in expand(read_grid(_grid(grid)))))

    def commits(self) -> dict[str, str | None]:
        """The commit of each run that it has, or of the whole file under its name."""
        if self.path.is_dir():
            found = {one["run"]: one["machine"].get("commit") for _, one in _lines(self.path / RUNS)}
            return {run: found[run] for run in self.wanted() if run in found} if self.grids else found
        if not self.path.is_file():
            return {}
        content = json.loads(self.path.read_text(encoding="utf-8"))
        return {self.name: content.get("machine", {}).get("commit")}

    def stale(self) -> list[str]:
        """The parts whose code has changed since."""
        return [part for part, commit in self.commits().items() if self._changed_since(commit)]

    def _changed_since(self, commit: str | None) -> bool:
        bare = (commit or "").rstrip("+")
        return changed_since(self.equal.get(bare, bare), tuple(self.code))

    def complete(self) -> bool:
        """Whether every part is there."""
        return len(self.commits()) >= max(len(self.wanted()), 1)

    def commands(self, data_path: str) -> Iterator[list[str]]:
        """What makes it."""
        output = str(self.path.relative_to(ROOT))
        for grid in self.grids:
            words = ["--grid", str(_grid(grid).relative_to(ROOT)), "--data_path", data_path, "--jobs", "2"]
            words += ["--validation"] if self.validation else []
            yield [sys.executable, "-m", "recbole_asarrec", "grid", *words, "-o", output]
        if self.measure:
            data = ["--data_path", data_path] if "--dataset" in self.measure else []
            words = [*shlex.split(self.measure), *data, "-o", output]
            yield [sys.executable, "-m", "benchmarks", *words]


def _grid(name: str) -> Path:
    return HERE / "grids" / name


@cache
def changed_since(commit: str, code: tuple[str, ...]) -> bool:
    """Whether any of ``code`` differs from what it was at a commit; an unknown one counts as different."""
    words = ["git", "diff", "--quiet", commit or "unknown", "--", *code]
    return subprocess.run(words, cwd=ROOT, capture_output=True, check=False).returncode != 0


def read_figures(file: Path = HERE / "figures.yaml") -> dict[str, Figure]:
    """All figures by name, in the order in which they are made."""
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    code: Mapping[str, list[str]] = content["code"]
    return {
        name: Figure(**{**entry, "name": name, "code": code[entry["code"]], "equal": content["equal"]})
        for name, entry in content["figures"].items()
    }


def state(figure: Figure) -> str:
    """What there is of it, in words."""
    have, stale = len(figure.commits()), len(figure.stale())
    if not figure.grids:
        return "missing" if not have else "stale" if stale else "current"
    text = f"{have} of {len(figure.wanted())} runs"
    return f"{text}, {stale} of them stale" if stale else text


def table(figures: Mapping[str, Figure]) -> str:
    """Markdown: a row a figure."""
    lines = ["| figure | there is | minutes for all | shown in |", "|---|---|---|---|"]
    lines += [
        f"| {one.name} | {state(one)} | {one.minutes} | {', '.join(one.shown)} |" for one in figures.values()
    ]
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``figures``."""
    parser.description = __doc__
    parser.add_argument("names", nargs="*", metavar="FIGURE", help="some of them (default: all)")
    parser.add_argument("--make", action="store_true", help="make what is missing, in this order")
    parser.add_argument("--stale", action="store_true", help="with --make: make what is stale again, too")
    parser.add_argument("--data_path", default="dataset", help="folder above the data (default: dataset)")


def run(arguments: argparse.Namespace) -> None:
    """The command.

    Raises:
        UserError: there is no such figure, or a command failed.
    """
    every = read_figures()
    for name in arguments.names:
        if name not in every:
            raise UserError(
                f"There is no figure '{name}'{nearest(name, every)}; there are {', '.join(every)}."
            )
    chosen = {name: every[name] for name in arguments.names or every}
    if arguments.stale and not arguments.make:
        raise UserError("--stale is for --make: python -m benchmarks figures --make --stale")
    if arguments.make:
        for figure in chosen.values():
            make(figure, arguments.data_path, arguments.stale)
    print(table(chosen))


def make(figure: Figure, data_path: str, stale: bool) -> None:
    """Make what a figure lacks.

    Raises:
        UserError: its command failed.
    """
    if stale:
        forget(figure)
    if figure.complete():
        return
    if figure.by_hand:
        print(f"{figure.name}: {figure.by_hand}", flush=True)
    for words in figure.commands(data_path):
        print(shlex.join(words), flush=True)
        code = subprocess.run(words, cwd=ROOT, check=False).returncode
        if code:
            raise UserError(f"{figure.name}: the command above ended with exit code {code}.")


def forget(figure: Figure) -> None:
    """Remove what is stale, as far as a command makes it again; a killed command removes no more."""
    old = set(figure.stale())
    if not old or figure.by_hand:
        return
    if not figure.path.is_dir():
        figure.path.unlink()
        return
    file = figure.path / RUNS
    kept = [line for line, one in _lines(file) if one["run"] not in old]
    with atomic_write(file) as sink:
        sink.writelines(f"{line}\n" for line in kept)


def _lines(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Lines of recorded runs as text and as data; a grid that was killed may have none, or a cut one."""
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
        with suppress(json.JSONDecodeError):
            yield line, json.loads(line)
