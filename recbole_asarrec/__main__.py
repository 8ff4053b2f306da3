"""The command line: ``python -m recbole_asarrec --help``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from recbole_asarrec.errors import UserError


def _add_recommend(commands: argparse._SubParsersAction) -> None:
    recommend = commands.add_parser(
        "recommend",
        help="recommend items for histories with a saved model",
        description="Histories are JSON lines: ['item', …] or {'user': …, 'history': ['item', …]}, oldest "
        "item first; or CSV with the columns user,items, the items separated by spaces. The format follows "
        "the file's ending. Results are JSON lines {user, items, scores} or CSV user,rank,item,score.",
    )
    recommend.add_argument("checkpoint", type=Path, help="a .pth file that training saved")
    recommend.add_argument("histories", help="a .jsonl or .csv file, or - for JSON lines on standard input")
    recommend.add_argument(
        "-o", "--output", default="-", help="a .jsonl or .csv file (default: standard output)"
    )
    recommend.add_argument("-k", type=int, default=10, help="items for each history (default: 10)")
    recommend.add_argument("--exclude-history", action="store_true", help="leave out what is in the history")
    recommend.add_argument(
        "--unknown",
        choices=("skip", "refuse"),
        default="skip",
        help="items that training never saw (default: skip)",
    )
    recommend.add_argument("--overwrite", action="store_true", help="replace an output file that exists")
    recommend.add_argument(
        "--trust-checkpoint", action="store_true", help="load a checkpoint that runs code when opened"
    )


def _add_benchmark(commands: argparse._SubParsersAction) -> None:
    kinds = commands.add_parser("benchmark", help="measure on this machine").add_subparsers(
        dest="kind", required=True, metavar="kind"
    )
    speed = kinds.add_parser("speed", help="epochs, memory and ratios beside stock RecBole")
    speed.add_argument(
        "--sample", type=float, default=1.0, help="share of the users (default: 1; 0.02 takes two minutes)"
    )
    speed.add_argument("--epochs", type=int, default=1, help="epochs a run (default: 1)")
    speed.add_argument("--batch", type=int, default=1024, help="train_batch_size (default: 1024)")
    speed.add_argument(
        "--only", nargs="+", metavar="contender", help="measure these alone, e.g. 'none, prefix'"
    )
    inference = kinds.add_parser("inference", help="the cost of ranking beside the backbone's")
    for kind in (speed, inference):
        kind.add_argument("--dataset", default="ml-100k", help="name of a data set (default: ml-100k)")
        kind.add_argument("--data_path", default="dataset", help="folder above it (default: dataset)")
        kind.add_argument("--rounds", type=int, default=3, help="times everything is measured (default: 3)")
        kind.add_argument("-o", "--output", help="a .json file for the whole result")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m recbole_asarrec", description="Tools beside RecBole's own run_recbole.py."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser("doctor", help="say what is installed, what was mended, what would not work")
    _add_recommend(commands)
    _add_benchmark(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 on success, 2 for a user's mistake."""
    arguments = _parser().parse_args(argv)
    try:
        if arguments.command == "doctor":
            from recbole_asarrec.doctor import report

            print(report())
        elif arguments.command == "recommend":
            from recbole_asarrec.histories import recommend_file

            recommend_file(arguments)
        elif arguments.kind == "speed":
            from recbole_asarrec.benchmark import speed

            speed.run(arguments)
        else:
            from recbole_asarrec.benchmark import inference

            inference.run(arguments)
    except UserError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
