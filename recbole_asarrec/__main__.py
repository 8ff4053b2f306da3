"""The command line: ``python -m recbole_asarrec --help``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType

from recbole_asarrec import doctor, histories
from recbole_asarrec.benchmark import (
    adversary,
    generate,
    inference,
    processes,
    quality,
    reach,
    reliability,
    scale,
    speed,
)
from recbole_asarrec.failures import run_command
from recbole_asarrec.lab import tune
from recbole_asarrec.prepare import command as prepare
from recbole_asarrec.report import command as report

# a command is a module with HELP, add_arguments(parser) and run(arguments)
COMMANDS: Mapping[str, ModuleType] = {
    "doctor": doctor,
    "prepare": prepare,
    "recommend": histories,
    "tune": tune,
    "report": report,
}
BENCHMARKS: Mapping[str, ModuleType] = {
    "speed": speed,
    "inference": inference,
    "quality": quality,
    "adversary": adversary,
    "reliability": reliability,
    "reach": reach,
    "processes": processes,
    "scale": scale,
    "generate": generate,
}


def _add(commands: argparse._SubParsersAction, modules: Mapping[str, ModuleType]) -> None:
    for name, module in modules.items():
        parser = commands.add_parser(name, help=module.HELP)
        module.add_arguments(parser)
        parser.set_defaults(run=module.run)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m recbole_asarrec", description="Tools beside RecBole's own run_recbole.py."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    _add(commands, COMMANDS)
    kinds = commands.add_parser("benchmark", help="measure on this machine")
    _add(kinds.add_subparsers(dest="kind", required=True, metavar="kind"), BENCHMARKS)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 on success, 2 for a user's mistake, 1 for what the machine could not do."""
    arguments = _parser().parse_args(argv)
    return run_command(lambda: arguments.run(arguments), lambda: "The same command goes on where it can.")


if __name__ == "__main__":
    sys.exit(main())
