"""``tune``: the best keys of every method on validation data; the test data is never read.

Every method of a grid gets the same number of trials from its own search space (``properties/search.yaml``).
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from recbole_asarrec.compat import read_properties
from recbole_asarrec.errors import ConfigError, UserError
from recbole_asarrec.experiments.grid import Grid, check, expand, read_grid
from recbole_asarrec.experiments.records import Record, Spec
from recbole_asarrec.experiments.runner import add_jobs, how_to_resume, name, run_all
from recbole_asarrec.files import atomic_write

__all__ = ["add_arguments", "draw_trials", "how_to_resume", "methods", "run", "search_space"]

WINNERS = "winners.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``tune``."""
    parser.description = (
        "Takes the methods and datasets of a grid file, its first seed and first noise ratio. Trials are "
        "kept in runs.jsonl of the results folder and the winners in winners.yaml beside it, which a grid "
        "names under 'tuned'. Stopped or killed, the same command resumes."
    )
    parser.add_argument("--grid", required=True, help="a grid file, as for `grid`")
    parser.add_argument("--trials", type=int, default=8, help="trials of each method (default: 8)")
    parser.add_argument("--data_path", default="dataset", help="folder above the data (default: dataset)")
    parser.add_argument("-o", "--output", default="tuning", help="results folder (default: tuning)")
    add_jobs(parser)


def search_space(spec: Spec) -> dict[str, list[Any]]:
    """What a method searches: its backbone's keys, or its augmentation's."""
    spaces = read_properties("search.yaml")
    if spec.augmentation == "none":
        backbones = spaces["backbones"]
        return backbones.get(spec.model.removeprefix("Asar"), backbones["other"])
    return spaces["augmentations"].get(spec.augmentation, spaces["augmentations"]["other"])


def draw_trials(space: Mapping[str, Sequence[Any]], count: int) -> list[dict[str, Any]]:
    """``count`` points of a space, or all there are: the first values, then those tried least so far.

    So a few trials try every value of every key; which of equal points comes first is a fixed random choice.
    """
    sizes = [len(values) for values in space.values()]
    first, *others = itertools.product(*map(range, sizes))  # points, each an index a key
    waiting = [list(first), *np.random.default_rng(0).permutation(others).tolist()]
    tried = [[0] * size for size in sizes]  # how often each value of each key was
    chosen: list[list[int]] = []
    while waiting and len(chosen) < count:
        point = min(waiting, key=lambda one: sum(tried[key][value] for key, value in enumerate(one)))
        waiting.remove(point)
        chosen.append(point)
        for key, value in enumerate(point):
            tried[key][value] += 1
    return [{key: space[key][value] for key, value in zip(space, point)} for point in chosen]


def methods(grid: Grid) -> list[Spec]:
    """One specification for each model, augmentation and dataset of a grid."""
    axes = {**grid.axes, "seeds": grid.axes["seeds"][:1]}
    if "noise_ratios" in axes:
        axes["noise_ratios"] = axes["noise_ratios"][:1]
    return expand(grid._replace(axes=axes, sweep={}, tuned=[]))


def winner(method: Spec, trials: Sequence[tuple[dict[str, Any], Record]]) -> dict[str, Any]:
    """The trial with the best validation score, as an entry of ``winners.yaml``."""
    keys, best = max(trials, key=lambda trial: trial[1].validation)
    return {
        "model": method.model,
        "augmentation": method.keys.get("augmentation"),
        "dataset": method.dataset,
        "keys": keys,
        "valid": {best.valid_metric: best.validation},
        "trials": len(trials),
    }


def run(arguments: argparse.Namespace) -> None:
    """The command."""
    if arguments.trials < 1:
        raise ConfigError(f"--trials must be at least 1, but is {arguments.trials}.")
    sys.argv = sys.argv[:1]  # RecBole reads the command line too
    grid, data_path = read_grid(arguments.grid), str(Path(arguments.data_path).absolute())
    check(grid, data_path)
    trials = {
        method: [
            (keys, Spec(method.model, method.dataset, method.seed, {**method.keys, **keys}))
            for keys in draw_trials(search_space(method), arguments.trials)
        ]
        for method in methods(grid)
    }
    folder = Path(arguments.output)
    specs = [spec for drawn in zip(*trials.values()) for _, spec in drawn]
    specs += [spec for drawn in trials.values() for _, spec in drawn]  # where a space is smaller than others
    records, failures = run_all(
        list(dict.fromkeys(specs)),
        folder,
        {"data_path": data_path},
        test=False,
        keep_weights=False,
        jobs=arguments.jobs,
    )
    if failures:
        raise UserError(f"{len(failures)} trials failed, the first: {failures[0]}")
    best = [
        winner(method, [(keys, records[spec.run]) for keys, spec in drawn])
        for method, drawn in trials.items()
    ]
    with atomic_write(folder / WINNERS) as file:
        yaml.safe_dump(best, file, sort_keys=False)
    for method, entry in zip(trials, best):
        print(f"{name(method)}: {entry['valid']} with {entry['keys']} ({entry['trials']} trials)")
    print(f"Winners: {folder / WINNERS}")
