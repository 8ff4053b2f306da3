"""The command line: ``recbole-asarrec --help``, or ``python -m recbole_asarrec --help``."""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from collections.abc import Mapping, Sequence

from recbole_asarrec.environment import doctor_is_running, explained

# A command is a module with add_arguments(parser) and run(arguments). Only the one asked for is imported, so
# that a command starts quickly and the doctor starts in a broken environment.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "train": ("cli.train", "train and test one model"),
    "recommend": ("cli.recommend", "recommend items for histories with a saved model"),
    "export": ("cli.export", "write a saved model to a folder that NumPy and ONNX Runtime can serve"),
    "prepare": ("prepare.command", "make a dataset from a publisher's raw files"),
    "choose": ("cli.choose", "find out which views pay on a dataset, on validation data"),
    "grid": ("cli.grid", "train and test a grid of models, augmentations, datasets, noise and seeds"),
    "tune": ("experiments.tune", "search every method's keys on validation data, with equal trials"),
    "report": ("report.command", "make a page of tables and figures from recorded runs"),
    "doctor": ("cli.doctor", "show what is installed, what is broken and how to repair it"),
}
TAKE_KEYS = ("train", "choose")  # commands that read --key=value as configuration


def _add(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Give ``parser`` every command; the one that ``words`` begin with gets its arguments too."""
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    wanted = next((word for word in words if not word.startswith("-")), None)
    for name, (module, help_line) in COMMANDS.items():
        command = commands.add_parser(name, help=help_line, allow_abbrev=False)
        if name == wanted:
            with explained():
                found = importlib.import_module(f"recbole_asarrec.{module}")
            found.add_arguments(command)
            how_to_resume = getattr(found, "how_to_resume", str)  # nothing to say by default
            command.set_defaults(run=found.run, how_to_resume=how_to_resume, takes_keys=name in TAKE_KEYS)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 on success, 2 for a user's mistake, 1 for what the machine could not do."""
    words = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="recbole-asarrec", description="AsarRec for RecBole.")
    _add(parser, words)
    arguments, keys = parser.parse_known_args(words)
    if keys and not arguments.takes_keys:
        parser.error(f"unrecognized arguments: {' '.join(keys)}")
    if doctor_is_running():
        arguments.run(arguments)
        return 0
    from recbole_asarrec.exit_codes import run_command

    arguments.keys = keys
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # those of third-party packages; this package's own are logged
    return run_command(lambda: arguments.run(arguments), arguments.how_to_resume)


if __name__ == "__main__":
    sys.exit(main())
