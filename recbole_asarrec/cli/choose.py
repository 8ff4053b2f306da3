"""``choose``: which views pay on a dataset, judged by validation data alone."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from math import sqrt
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any, NamedTuple

from recbole_asarrec.cli.train import check_keys
from recbole_asarrec.compat import plain_value
from recbole_asarrec.errors import ConfigError, UserError
from recbole_asarrec.experiments.records import Record, Spec
from recbole_asarrec.experiments.run import configure
from recbole_asarrec.experiments.runner import add_jobs, how_to_resume, run_all
from recbole_asarrec.shell import python_name, typed

__all__ = ["add_arguments", "how_to_resume", "run"]

CANDIDATES = ("none", "asar", "cl4srec", "crop")
FIRST_SEED = 2020


class Candidate(NamedTuple):
    """One way to make views, trained with every seed.

    Attributes:
        name: its augmentation.
        scores: the best validation score of each seed, higher is better.
        seconds: of training an epoch, the median of all.
    """

    name: str
    scores: tuple[float, ...]
    seconds: float

    @property
    def mean(self) -> float:
        """Over seeds."""
        return mean(self.scores)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command; every other ``--key=value`` is a configuration key."""
    parser.description = (
        "Trains a model with each kind of views and several seeds, to the early stop, and says which are "
        "worth their time: the cheapest within one standard error of the best validation score. Test data is "
        "not read. Trials are kept in runs.jsonl of the results folder; stopped or killed, the same command "
        "resumes."
    )
    parser.epilog = "Any other --key=value sets a configuration key of every trial."
    parser.add_argument("--model", "-m", default="AsarSASRec", help="an Asar model (default: AsarSASRec)")
    parser.add_argument("--dataset", "-d", default="ml-100k", help="dataset (default: ml-100k)")
    parser.add_argument(
        "--augmentations",
        nargs="+",
        default=list(CANDIDATES),
        metavar="VIEWS",
        help=f"what to compare (default: {' '.join(CANDIDATES)})",
    )
    parser.add_argument("--seeds", type=int, default=3, help="trials of each (default: 3)")
    parser.add_argument("--data_path", default="dataset", help="folder above the data (default: dataset)")
    parser.add_argument("-o", "--output", default="choice", help="results folder (default: choice)")
    add_jobs(parser)


def run(arguments: argparse.Namespace) -> None:
    """The command."""
    sys.argv = sys.argv[:1]  # RecBole reads the command line too
    keys = read_keys(arguments.keys)
    if arguments.seeds < 1:
        raise ConfigError(f"--seeds must be at least 1, but is {arguments.seeds}.")
    names = list(dict.fromkeys(arguments.augmentations))
    if len(names) < 2:
        raise ConfigError(
            "--augmentations needs two or more to choose from, as in: --augmentations none asar"
        )
    if not arguments.model.startswith("Asar"):
        raise ConfigError(f"{arguments.model} has no views to choose; take Asar{arguments.model}.")
    specs = {
        (name, seed): Spec(
            arguments.model, arguments.dataset, FIRST_SEED + seed, {**keys, "augmentation": name}
        )
        for seed in range(arguments.seeds)  # seeds turn slowest: everything is compared once, early
        for name in names
    }
    where = {"data_path": str(Path(arguments.data_path).absolute())}
    for name in names:
        check(specs[name, 0], where)
    records, failures = run_all(
        list(specs.values()),
        Path(arguments.output),
        where,
        test=False,
        keep_weights=False,
        jobs=arguments.jobs,
    )
    if failures:
        raise UserError(f"{len(failures)} of {len(specs)} trials failed, the first: {failures[0]}")
    candidates = [
        candidate(name, [records[specs[name, seed].run] for seed in range(arguments.seeds)]) for name in names
    ]
    metric = records[specs[names[0], 0].run].config["valid_metric"]
    chosen = choose(candidates)
    words = ["-m", "recbole_asarrec", "train", f"--model={arguments.model}", f"--dataset={arguments.dataset}"]
    words += [f"--augmentation={chosen.name}", *arguments.keys]
    print(table(candidates, metric), "", verdict(candidates, chosen), sep="\n")
    print(f"Train: {typed([python_name(), *words])}")


def read_keys(words: Sequence[str]) -> dict[str, Any]:
    """Configuration keys from ``--key=value``.

    Raises:
        ConfigError: a word is no such thing, or a key that this command sets itself.
    """
    check_keys(list(words))
    keys = {name: plain_value(value) for name, _, value in (word[2:].partition("=") for word in words)}
    for name, own in {"augmentation": "--augmentations", "seed": "--seeds"}.items():
        if name in keys:
            raise ConfigError(f"choose sets the key '{name}' itself; use {own}.")
    return keys


def check(spec: Spec, keys: Mapping[str, Any]) -> None:
    """Raise a UserError if a trial could not start."""
    folder = Path(configure(spec, **keys, state="error")["data_path"])
    if not folder.is_dir():
        raise ConfigError(f"There is no dataset '{spec.dataset}': no folder '{folder}'.")


def candidate(name: str, records: Sequence[Record]) -> Candidate:
    """What the trials of one augmentation came to."""
    sign = 1 if records[0].config.get("valid_metric_bigger", True) else -1
    epochs = [epoch["seconds"] for record in records for epoch in record.curve]
    return Candidate(name, tuple(sign * record.validation for record in records), median(epochs))


def standard_error(candidates: Sequence[Candidate]) -> float:
    """Of a candidate's mean, from the differences between seeds of all candidates; 0 for one seed."""
    count = len(candidates[0].scores)
    if count < 2:
        return 0.0
    return sqrt(mean(stdev(one.scores) ** 2 for one in candidates) / count)


def choose(candidates: Sequence[Candidate]) -> Candidate:
    """The cheapest within one standard error of the best (Breiman et al. 1984); ``none`` is the cheapest."""
    floor = max(one.mean for one in candidates) - standard_error(candidates)
    good = (one for one in candidates if one.mean >= floor)
    return min(good, key=lambda one: (one.name != "none", one.seconds))


def table(candidates: Sequence[Candidate], metric: str) -> str:
    """A row a candidate, best first."""
    quickest = min(one.seconds for one in candidates)
    best = max(one.mean for one in candidates)
    lines = [f"{'views':<22}{'validation ' + metric:>26}{'to the best':>13}{'s/epoch':>10}{'time':>8}"]
    for one in sorted(candidates, key=lambda one: -one.mean):
        spread = f" ± {stdev(one.scores):.4f}" if len(one.scores) > 1 else ""
        score = f"{abs(one.mean):.4f}{spread}"
        behind = f"{100 * (one.mean - best) / abs(best):+.1f} %" if best and one.mean < best else "best"
        lines.append(
            f"{one.name:<22}{score:>26}{behind:>13}{one.seconds:>10.1f}{one.seconds / quickest:>7.2f}×"
        )
    return "\n".join(lines)


def verdict(candidates: Sequence[Candidate], chosen: Candidate) -> str:
    """What to take and why, in two sentences."""
    best = max(candidates, key=lambda one: one.mean)
    if len(best.scores) == 1:
        doubt = " One seed says little: differences of a few percent may be chance."
    else:
        error = 100 * standard_error(candidates) / abs(best.mean) if best.mean else 0.0
        doubt = f" The standard error is {error:.1f} %, from {len(best.scores)} seeds."
    if chosen is best:
        reason = "has the best validation score, and nothing cheaper is within one standard error of it"
    else:
        share = chosen.seconds / best.seconds
        reason = f"is within one standard error of the best, {best.name}, and takes {share:.2f} of its time"
    start = "Views do not pay here: none" if chosen.name == "none" else f"Take {chosen.name}: it"
    return f"{start} {reason}.{doubt}"
