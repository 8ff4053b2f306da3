"""``groups``: what choosing views for each group of users could win, from recorded runs.

Each seed is held out in turn. On the others the best method of all is chosen, and the best of each group of
users; the held-out seed says what that choice is worth. The users are the same ones in every seed, so this
is more than an augmenter could win, which has to choose before it knows them. Groups drawn by lot show how
much of it is chance.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from recbole.config import Config
from recbole.data import create_dataset

from benchmarks import common
from recbole_asarrec.errors import UserError
from recbole_asarrec.experiments import records
from recbole_asarrec.experiments.ranks import Ranked
from recbole_asarrec.experiments.records import Record
from recbole_asarrec.experiments.run import configure
from recbole_asarrec.experiments.significance import per_user
from recbole_asarrec.report.study import Setting, study

PROTOCOL = "unseen_items"  # the paper's ranking
METRICS = ("hit@10", "ndcg@10")
_FEWEST = 2  # seeds: one to choose on, one to look at
_PARTS = 4


def won_by_choosing(scores: Mapping[str, np.ndarray], group: np.ndarray) -> tuple[float, float]:
    """What the best method gives, and what the best method of each group gives.

    Args:
        scores: of each method a metric of every user under every seed, ``[S, U]``.
        group: the group of each user, ``[U]``.
    """
    table = np.stack(list(scores.values()))  # [methods, S, U]
    inside = [group == one for one in np.unique(group)]
    single, chosen = [], []
    for held_out in range(table.shape[1]):
        known, unknown = np.delete(table, held_out, axis=1).mean(1), table[:, held_out]  # [methods, U]
        single.append(unknown[known.mean(1).argmax()].mean())
        best = sum(unknown[known[:, users].mean(1).argmax(), users].sum() for users in inside)
        chosen.append(best / len(group))
    return float(np.mean(single)), float(np.mean(chosen))


def quantiles(values: np.ndarray, parts: int = _PARTS) -> np.ndarray:
    """Groups of about one size, by value, ``[U] → [U]``; equal values are in one group."""
    edges = np.quantile(values, np.arange(1, parts) / parts)
    return np.searchsorted(edges, values, side="left")


def groupings(record: Record, data_path: str) -> dict[str, np.ndarray]:
    """Ways to put the users of a run into groups, in the order of its ranks.

    Raises:
        UserError: the data is not that of the run.
    """
    spec = record.spec
    config: Config = configure(spec, data_path=data_path, state="error", show_progress=False)
    dataset = create_dataset(config)
    rows = dataset.inter_feat
    users, items = (np.asarray(rows[field]) for field in (dataset.uid_field, dataset.iid_field))
    popularity = np.log(np.bincount(items)[items])
    length = np.bincount(users, minlength=dataset.user_num)
    mean = np.bincount(users, popularity, minlength=dataset.user_num) / length.clip(1)
    there = length.nonzero()[0]
    tokens = np.asarray(dataset.id2token(dataset.uid_field, there), dtype=str)
    order = np.argsort(tokens, kind="stable")
    if Ranked({}, tokens[order]).fingerprint != record.users:
        raise UserError(
            f"The data of '{spec.dataset}' in '{data_path}' has other users than the recorded runs."
        )
    there = there[order]
    by_length, by_popularity = quantiles(length[there]), quantiles(mean[there])
    return {
        "length of the history": by_length,
        "popularity of its items": by_popularity,
        "both": by_length * _PARTS + by_popularity,
        "drawn by lot": np.random.default_rng(0).integers(_PARTS**2, size=len(there)),
    }


def measure(setting: Setting, runs: Mapping[str, Mapping[int, Record]], data_path: str) -> dict[str, object]:
    """Of one setting: the methods, and of every metric and grouping what choosing wins, in per cent."""
    seeds = sorted(set.intersection(*(set(one) for one in runs.values())))
    any_run = next(iter(runs.values()))[seeds[0]]
    found: dict[str, dict[str, float]] = {}
    ways = groupings(any_run, data_path)
    for metric in METRICS:
        scores = {
            name: np.stack([per_user(one[seed].ranks[PROTOCOL], metric) for seed in seeds])
            for name, one in runs.items()
        }
        found[metric] = {}
        for way, group in ways.items():
            single, chosen = won_by_choosing(scores, group)
            found[metric][way] = round(100 * (chosen / single - 1), 2)
    return {"setting": setting.title, "methods": list(runs), "seeds": seeds, "won_per_cent": found}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``groups``."""
    parser.description = __doc__
    parser.add_argument("results", type=Path, help="a folder of recorded runs")
    parser.add_argument("--data_path", default="dataset", help="folder above the data (default: dataset)")
    common.add_output(parser)


def run(arguments: argparse.Namespace) -> None:
    """The command."""
    found = []
    for setting, methods in study(records.read(arguments.results)).items():
        views = {one.label: one.records for one in methods if one.augmentation not in ("none", "asar")}
        enough = {name: runs for name, runs in views.items() if len(runs) >= _FEWEST}
        if len(enough) > 1:
            found.append(measure(setting, enough, str(Path(arguments.data_path).absolute())))
    if not found:
        raise UserError(
            f"'{arguments.results}' has no setting with two fixed augmentations of {_FEWEST} seeds."
        )
    for one in found:
        print(f"{one['setting']}: {', '.join(one['methods'])}; seeds {one['seeds']}")
        for metric, ways in one["won_per_cent"].items():
            print(f"  {metric}: " + ", ".join(f"{way} {value:+.2f} %" for way, value in ways.items()))
    common.save(arguments.output, {"settings": found})
