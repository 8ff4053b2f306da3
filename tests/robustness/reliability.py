"""``reliability``: kill it, starve it, lie to it, and count what was lost and who got in."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from helpers import ROOT
from robustness import extremes, faults, fuzz, hostile
from robustness.faults import Outcome

from benchmarks import common

_TABLE = ROOT / "tests" / "robustness" / "test_bad_input.py"
_FAULTS: list[Callable[[Path], Outcome]] = [
    faults.full_disk,
    faults.read_only_folder,
    faults.two_runs,
    faults.worker_killed,
    faults.machine_lost,
    faults.out_of_memory,
    faults.histories_streamed,
]


def bad_inputs() -> Outcome:
    """The table of broken inputs in the tests."""
    if not _TABLE.is_file():
        return Outcome("bad inputs tried", "–", None, "the tests are in the source tree only")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(_TABLE)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    summary = (done.stdout.strip().splitlines() or ["no answer"])[-1]
    passed = re.search(r"(\d+) passed", summary)
    return Outcome("bad inputs tried", passed.group(1) if passed else "0", done.returncode == 0, summary)


def hostile_files(folder: Path) -> Outcome:
    """Files that would run code, offered to everything that reads such files."""
    tried, ran = hostile.try_everything(folder)
    return Outcome("codes run from hostile files", f"{ran}", ran == 0, f"{tried} attempts")


def extreme_settings(steps: int) -> tuple[Outcome, dict[str, str]]:
    """The game far from its defaults."""
    ends, unnoticed = extremes.play_all(steps)
    stopped = [name for name, end in ends.items() if end != "finite" and name not in unnoticed]
    detail = f"{steps} steps each; stopped in words: {', '.join(stopped) or 'none'}"
    if unnoticed:
        detail += f"; broken without a word: {', '.join(unnoticed)}"
    return Outcome("extreme settings played", f"{len(ends)}", not unnoticed, detail), ends


def fuzzed(count: int, guided: bool) -> tuple[Outcome, dict[str, Any]]:
    """Every fuzz target."""
    results = {name: fuzz.fuzz(name, count, guided=guided) for name in fuzz.TARGETS}
    tried = sum(result["tried"] for result in results.values())
    findings = sum(len(result["findings"]) for result in results.values())
    detail = f"{findings} findings in {len(results)} targets"
    return Outcome("inputs fuzzed", f"{tried:,}", findings == 0, detail), results


def run_all(arguments: argparse.Namespace) -> Iterator[tuple[Outcome, dict[str, Any]]]:
    """One outcome after another, each with what stands behind it."""
    short = arguments.short
    with tempfile.TemporaryDirectory() as name:
        kills, epochs = (1, 4) if short else (arguments.kills, 12)
        for outcome in faults.survive_kills(_made(name, "kills"), kills, epochs):
            yield outcome, {}
        for fault in [] if short else _FAULTS:
            yield fault(_made(name, fault.__name__)), {}
        if not short:
            yield bad_inputs(), {}
        yield hostile_files(_made(name, "hostile")), {}
        yield extreme_settings(20 if short else arguments.steps)
        yield fuzzed(200 if short else arguments.inputs, guided=not short)


def _made(folder: str, name: str) -> Path:
    made = Path(folder) / name
    made.mkdir()
    return made


def as_text(outcomes: list[Outcome]) -> str:
    """The table as Markdown."""
    lines = ["| what | figure | held | detail |", "|---|---|---|---|"]
    for one in outcomes:
        held = "not tried" if one.passed is None else "yes" if one.passed else "**no**"
        lines.append(f"| {one.what} | {one.figure} | {held} | {one.detail.replace('|', '/')} |")
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``reliability``."""
    parser.add_argument("--short", action="store_true", help="one kill and a taste of the rest, in a minute")
    parser.add_argument("--kills", type=int, default=50, help="kills at random moments (default: 50)")
    parser.add_argument("--steps", type=int, default=3000, help="steps of each extreme (default: 3000)")
    parser.add_argument(
        "--inputs", type=int, default=20_000, help="inputs fuzzed for each target (default: 20000)"
    )
    common.add_output(parser, beside="; the table goes beside it")


def run(arguments: argparse.Namespace) -> None:
    """The command; it fails if anything did not hold."""
    outcomes, behind = [], {}
    for outcome, result in run_all(arguments):
        print(f"{outcome.what}: {outcome.figure}", file=sys.stderr)
        outcomes.append(outcome)
        if result:
            behind[outcome.what] = result
    print(as_text(outcomes))
    common.save(arguments.output, {"outcomes": [one._asdict() for one in outcomes], **behind})
    if arguments.output:
        table = f"# Reliability\n\n`{common.command()}`\n\n{as_text(outcomes)}\n"
        arguments.output.with_suffix(".md").write_text(table, encoding="utf-8")
    if any(one.passed is False for one in outcomes):
        sys.exit(1)
