"""Measurements of this project: ``python -m benchmarks --help``, from the root of a source tree."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence

from benchmarks.common import ROOT
from recbole_asarrec.exit_codes import run_command

# a module with add_arguments(parser) and run(arguments), and what it measures
COMMANDS: Mapping[str, str] = {
    "figures": "which recorded figures are missing or stale, and make them",
    "speed": "an epoch beside stock RecBole's",
    "step": "where the CPU time of a training step goes",
    "inference": "ranking, call by call",
    "recommend": "the command recommend beside RecBole's plain loop and a bare product, and its memory",
    "warm_start": "training from a checkpoint beside training from nothing, on data that has grown",
    "adversary": "whether learning makes views harder than chance does",
    "bound": "what could be won by choosing views at all",
    "groups": "what could be won by choosing views for each group of users, from recorded runs",
    "reproduction": "the paper's tables beside recorded runs, as docs/paper.md",
    "leaderboard": "result tables of all recorded runs, as docs/results",
    "peers": "SASRec of RecTools on the same split, ranked by the same code",
    "reach": "the time to stock RecBole's best validation figure",
    "processes": "two processes beside one",
    "serving": "the example service under load",
    "scale": "0.2, 2 and 20 million interactions",
    "generate": "write data shaped like MovieLens 20M",
    "reliability": "kill, starve and mislead training, and count what was lost",
}
MODULES = {"reliability": "robustness.reliability"}  # of tests/; the others are beside this file


def main(argv: Sequence[str] | None = None) -> int:
    """Run one measurement; 0 on success."""
    sys.path.append(str(ROOT / "tests"))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="measurement")
    for name, help_line in COMMANDS.items():
        command = commands.add_parser(name, help=help_line)
        module = importlib.import_module(MODULES.get(name, f"benchmarks.{name}"))
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    arguments = parser.parse_args(argv)
    return run_command(lambda: arguments.run(arguments), str)


if __name__ == "__main__":
    sys.exit(main())
