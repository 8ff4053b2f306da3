"""``recommend``: from a file of histories to a file of recommendations."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from recbole_asarrec.errors import UserError
from recbole_asarrec.inference.answer import Answer, Question, answers
from recbole_asarrec.inference.histories import one_history, open_histories
from recbole_asarrec.inference.partial import PartialOutput, is_done, read_progress
from recbole_asarrec.inference.recommender import Recommender
from recbole_asarrec.inference.results import results_of
from recbole_asarrec.inference.window import Source, Window, kind_of
from recbole_asarrec.serving.histories import check_options, warn_of_skipped
from recbole_asarrec.version import __version__

# oneDNN keeps what it prepared for the last 1,024 shapes, and each batch has its own: memory would grow
_PREPARED_SHAPES = "8"
DESCRIPTION = (
    "Histories are JSON lines: ['item', …] or {'user': …, 'history': ['item', …]}, oldest item first; CSV "
    "with the columns user,items, the items separated by spaces; or Parquet with a column history of lists "
    "and an optional column user. The format follows the file's ending. Results are JSON lines {user, items, "
    "scores}, CSV user,rank,item,score, or Parquet with the columns user, items and scores, in the order of "
    "the histories. If it is interrupted, the same command resumes."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``recommend``."""
    parser.description = DESCRIPTION
    parser.add_argument("checkpoint", type=Path, help="a .pth file that training saved")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "histories", nargs="?", help="a .jsonl, .csv or .parquet file, or - for JSON lines on standard input"
    )
    source.add_argument("--history", nargs="+", metavar="ITEM", help="the items of one history, oldest first")
    parser.add_argument(
        "-o", "--output", default="-", help="a .jsonl, .csv or .parquet file (default: standard output)"
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
    parser.add_argument("--jobs", type=int, help="processes to use (default: one for each core)")
    parser.add_argument(
        "--trust-checkpoint", action="store_true", help="load a checkpoint that runs code when opened"
    )


def run(arguments: argparse.Namespace) -> None:
    """The command."""
    check_options(arguments.k, arguments.unknown)
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", _PREPARED_SHAPES)  # read at the first product
    processes = torch.get_num_threads() if arguments.jobs is None else arguments.jobs
    if processes < 1:
        raise UserError(f"--jobs must be at least 1, but is {processes}.")
    target = None if arguments.output == "-" else Path(arguments.output)
    if target is not None and not _needs_work(target, arguments.overwrite):
        return
    with _histories(arguments) as source:
        model = Recommender(arguments.checkpoint, trust_checkpoint=arguments.trust_checkpoint)
        question = Question(
            checkpoint=str(arguments.checkpoint),
            layout=source.layout,
            kind=kind_of(arguments.output),
            k=arguments.k,
            exclude_history=arguments.exclude_history,
            unknown=arguments.unknown,
            trust_checkpoint=arguments.trust_checkpoint,
        )
        answer_all = partial(answers, question, model, source.windows, processes)
        if target is None:
            _print(_with_bar(answer_all(), source))
            return
        resumes = arguments.histories not in (None, "-")
        results = results_of(question.kind, model.tokens)
        settings = _settings(question, resumes)
        with PartialOutput(target, settings, results, arguments.overwrite, resumes) as output:
            if output.progress.windows:
                with _histories(arguments) as again:
                    output.check(again.windows)
            done = sum(window.size for window in islice(source.windows, output.progress.windows))
            _write(output, _with_bar(answer_all(), source, done, output.progress.histories))
    warn_of_skipped(output.progress.skipped, output.progress.empty)


def _needs_work(target: Path, overwrite: bool) -> bool:
    """Whether the output has still to be made; a UserError where it cannot be."""
    if target.is_dir():
        raise UserError(f"'{target}' is a folder; name a file for the output.")
    if not overwrite and is_done(target):
        print(f"'{target}' is complete.", file=sys.stderr)
        return False
    before = read_progress(target)
    if target.exists() and not overwrite and not (before and before.finished):
        raise UserError(f"The file '{target}' exists; choose another name or add --overwrite.")
    if not target.absolute().parent.is_dir():
        raise UserError(f"The folder '{target.absolute().parent}' does not exist; make it first.")
    return True


def _histories(arguments: argparse.Namespace) -> AbstractContextManager[Source]:
    """The one history of the command line, or those of a file."""
    if arguments.history:
        return nullcontext(one_history(arguments.history))
    return open_histories(arguments.histories)


def _settings(question: Question, from_file: bool) -> dict[str, Any]:
    """What results depend on beside the histories, down to the last byte."""
    digest = hashlib.sha256()
    with open(question.checkpoint, "rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return {
        "checkpoint": digest.hexdigest(),
        "format of the histories": question.layout.kind if from_file else "standard input",
        "k": question.k,
        "--exclude-history": question.exclude_history,
        "--unknown": question.unknown,
        "release of recbole-asarrec": __version__,
        "release of torch": torch.__version__,
        "processor": torch.backends.cpu.get_cpu_capability(),
    }


def _with_bar(
    found: Iterator[tuple[Window, Answer]], source: Source, done: int = 0, histories: int = 0
) -> Iterator[tuple[Window, Answer]]:
    """The same, seen by a progress bar where there is a screen: of a text's bytes or a table's rows."""
    unit = " rows" if source.layout.kind == ".parquet" else "B"
    hidden = not sys.stderr.isatty()
    with tqdm(total=source.total, initial=done, unit=unit, unit_scale=True, disable=hidden) as bar:
        for window, answer in found:
            yield window, answer
            histories += answer.histories
            bar.set_postfix_str(f"{histories:,} histories", refresh=False)
            bar.update(window.size)


def _print(found: Iterator[tuple[Window, Answer]]) -> None:
    skipped = empty = 0
    for _, answer in found:
        sys.stdout.write(answer.body.decode())
        skipped += answer.skipped
        empty += answer.empty
    warn_of_skipped(skipped, empty)


def _write(output: PartialOutput, found: Iterator[tuple[Window, Answer]]) -> None:
    if output.progress.windows:
        print(f"Resuming after {output.progress.histories:,} histories.", file=sys.stderr)
    try:
        for window, answer in found:
            output.add(window, answer)
        output.finish()
    except BaseException:
        if output.resumes and output.kept:
            kept = f"{output.kept:,} histories are done and kept in '{output.part}'"
            print(f"{kept}; the same command resumes.", file=sys.stderr)
        raise
