"""``step``: where the CPU time of a training step goes, part by part, for several kinds of views.

One process, one thread. The first epoch is not counted; parts are timed inside the second, by wrapping the
functions that do them. Parts inside another part count in both.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from recbole.config import Config
from recbole.data import create_dataset
from recbole.utils import init_logger, init_seed
from tqdm import tqdm

from benchmarks import common
from recbole_asarrec.augment import augmenter, matrix_views, sinkhorn, transition, view
from recbole_asarrec.kernels.malloc import keep_freed_memory
from recbole_asarrec.models import asarrec
from recbole_asarrec.training.set_up import set_up

VIEWS = ("none", "cl4srec", "random_matrix", "asar")


class Part(NamedTuple):
    """A function that is timed.

    Attributes:
        label: what it does.
        owner: the module or class it is looked up in.
        name: its name there.
    """

    label: str
    owner: Any
    name: str


PARTS = (
    Part("next-item loss, forward", asarrec.AsarRec, "recommendation_loss"),
    Part("encode both views, forward", asarrec.AsarRec, "encode_views"),
    Part("InfoNCE, forward", asarrec, "info_nce"),
    Part("draw views, forward", asarrec.AsarRec, "draw_views"),
    Part("– transition encoder", transition.TransitionEncoder, "forward"),
    Part("– transition probabilities", augmenter.Augmenter, "_probability"),
    Part("– Semi-Sinkhorn", augmenter, "semi_sinkhorn"),
    Part("– rounding", augmenter, "mutual_argmax"),
    Part("– edit cap", augmenter, "cap_edits"),
    Part("– candidates", matrix_views, "sample_unseen"),
    Part("sequence-aware NDCG, forward", asarrec, "sequence_quality"),
    Part("backward", torch.Tensor, "backward"),
    Part("– Semi-Sinkhorn", sinkhorn._SemiSinkhorn, "backward"),
    Part("– to the matrices", view._CarryGradient, "backward"),
)


def timed(function: Callable[..., Any], add: Callable[[float], None]) -> Callable[..., Any]:
    """The function, with its CPU seconds added up."""

    @wraps(function)
    def call(*words: Any, **options: Any) -> Any:
        began = process_time()
        try:
            return function(*words, **options)
        finally:
            add(process_time() - began)

    return call


@contextmanager
def watched() -> Iterator[Counter[int]]:
    """Inside, every part is timed: CPU seconds by its number in :data:`PARTS`."""
    seconds: Counter[int] = Counter()
    with ExitStack() as stack:
        for number, part in enumerate(PARTS):

            def add(more: float, number: int = number) -> None:
                seconds[number] += more

            found = timed(getattr(part.owner, part.name), add)
            static = isinstance(part.owner.__dict__.get(part.name), staticmethod)
            stack.enter_context(patch.object(part.owner, part.name, staticmethod(found) if static else found))
        yield seconds


def measure(dataset: str, data_path: str, augmentation: str) -> dict[str, Any]:
    """Milliseconds of a step in the paper's setting with 20 % noise, and of its parts."""
    keys = {"recipe": "paper", "noise_ratio": 0.2, "augmentation": augmentation, "data_path": data_path}
    config = Config("AsarSASRec", dataset, config_dict={**keys, "state": "ERROR", "show_progress": False})
    init_seed(config["seed"], config["reproducibility"])
    init_logger(config)
    run = set_up(config, create_dataset(config))
    run.trainer.curve = [{}]  # an epoch writes its statistics into the last entry
    run.trainer._train_epoch(run.train, 0)
    with watched() as seconds:
        began = process_time()
        run.trainer._train_epoch(run.train, 1)
        total = process_time() - began
    steps = len(run.train)
    return {
        "step_ms": 1e3 * total / steps,
        "parts_ms": [1e3 * seconds[number] / steps for number in range(len(PARTS))],
    }


def summarise(rounds: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, Any]:
    """Medians over rounds; ratios are taken within a round."""
    each = {
        name: {
            "step_ms": median(one[name]["step_ms"] for one in rounds),
            "parts_ms": [median(values) for values in zip(*(one[name]["parts_ms"] for one in rounds))],
        }
        for name in VIEWS
    }
    return {
        "labels": [part.label for part in PARTS],
        "views": each,
        "by_none": {n: median(one[n]["step_ms"] / one["none"]["step_ms"] for one in rounds) for n in VIEWS},
        "asar_by_cl4srec": median(one["asar"]["step_ms"] / one["cl4srec"]["step_ms"] for one in rounds),
    }


def as_text(summary: Mapping[str, Any]) -> str:
    """Markdown: a column for each kind of views."""
    lines = [f"| ms of CPU time a step | {' | '.join(VIEWS)} |", "|---|" + "---|" * len(VIEWS)]
    for number, label in enumerate(summary["labels"]):
        values = [summary["views"][name]["parts_ms"][number] for name in VIEWS]
        lines.append(f"| {label} | {' | '.join(f'{value:.1f}' if value else '' for value in values)} |")
    whole = [f"{summary['views'][name]['step_ms']:.0f}" for name in VIEWS]
    lines.append(f"| the whole step | {' | '.join(whole)} |")
    ratios = [f"{summary['by_none'][name]:.2f}" for name in VIEWS]
    lines.append(f"| ÷ none | {' | '.join(ratios)} |")
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``step``."""
    parser.description = __doc__
    common.add_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
    """The command."""
    path = str(Path(arguments.data_path).absolute())
    typed, sys.argv, here, threads = sys.argv, sys.argv[:1], os.getcwd(), torch.get_num_threads()
    torch.set_num_threads(1)
    keep_freed_memory()
    try:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)  # RecBole writes its logs into the current folder
            rounds = [
                {name: measure(arguments.dataset, path, name) for name in VIEWS}
                for _ in tqdm(range(arguments.rounds), unit="round")
            ]
            os.chdir(here)
    finally:
        os.chdir(here)
        sys.argv = typed
        torch.set_num_threads(threads)
    summary = summarise(rounds)
    print(as_text(summary))
    common.save(arguments.output, {"dataset": arguments.dataset, **summary, "rounds": rounds})
