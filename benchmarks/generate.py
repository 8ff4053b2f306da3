"""``generate``: data of any size shaped like MovieLens 20M, the largest of the paper.

Users have at least 20 interactions and a long tail of them, items a long tail of users. A smaller size has
fewer users and every item, so that the catalogue, and with it the softmax, stays the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tqdm import tqdm

from recbole_asarrec.errors import DataError, UserError
from recbole_asarrec.files import atomic_write

USERS, ITEMS, INTERACTIONS = 138_493, 27_278, 20_000_263  # of MovieLens 20M
SHORTEST, LONGEST = 20, 9_254
_MEDIAN, _SPREAD = 48, 1.38  # of the log-normal number of interactions beyond the shortest
_HEAD, _STEEPNESS = 353, 2.2  # popularity falls as (rank + head)^−steepness
_USERS_AT_ONCE = 4096


def history_lengths(interactions: int, random: np.random.Generator) -> np.ndarray:
    """Long-tailed lengths that sum to ``interactions``, ``[users]``."""
    users = max(1, round(USERS * interactions / INTERACTIONS))
    drawn = SHORTEST + _MEDIAN * np.exp(_SPREAD * random.standard_normal(users))
    lengths = np.minimum(drawn, LONGEST).astype(np.int64)
    spare = lengths - SHORTEST
    wanted = interactions - users * SHORTEST
    spare = np.floor(spare * (wanted / max(spare.sum(), 1))).astype(np.int64)
    spare[: wanted - spare.sum()] += 1  # what rounding lost
    return SHORTEST + spare


def histories(interactions: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Users, items and times of everybody's interactions, some thousand users at a time, each ``[M]``."""
    random = np.random.default_rng(seed)
    lengths = history_lengths(interactions, random)
    popularity = np.cumsum((np.arange(ITEMS) + 1.0 + _HEAD) ** -_STEEPNESS)
    named = random.permutation(ITEMS)  # so that an item's name does not tell its rank
    once = np.sort(random.choice(interactions, ITEMS, replace=False))  # where every item appears once
    everything = random.permutation(ITEMS)
    before = 0
    for first in range(0, len(lengths), _USERS_AT_ONCE):
        some = lengths[first : first + _USERS_AT_ONCE]
        count = int(some.sum())
        rank = np.searchsorted(popularity, random.random(count) * popularity[-1], side="right")
        items = named[np.minimum(rank, ITEMS - 1)]
        begin, end = np.searchsorted(once, [before, before + count])
        items[once[begin:end] - before] = everything[begin:end]
        users = np.repeat(np.arange(first, first + len(some)), some)
        times = np.arange(count) - np.repeat(np.cumsum(some) - some, some)
        yield users, items, times
        before += count


def write(folder: Path, name: str, interactions: int = INTERACTIONS, seed: int = 0) -> Path:
    """Write ``<folder>/<name>/<name>.inter``, a chunk at a time; the file appears when it is whole."""
    if interactions < ITEMS:
        raise UserError(f"Every one of {ITEMS} items must appear: --interactions must be at least {ITEMS}.")
    file = folder / name / f"{name}.inter"
    if file.exists():
        raise DataError(f"The file '{file}' exists; choose another --dataset or remove it.")
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(file) as sink, tqdm(total=interactions, unit="row") as bar:
        sink.write("user_id:token\titem_id:token\ttimestamp:float\n")
        for columns in histories(interactions, seed):
            rows = zip(*(column.tolist() for column in columns))
            sink.writelines(f"{user}\t{item}\t{time}\n" for user, item, time in rows)
            bar.update(len(columns[0]))
    return file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``generate``."""
    parser.add_argument("--dataset", default="ml-20m-shaped", help="name (default: ml-20m-shaped)")
    parser.add_argument("--data_path", default="dataset", help="folder above it (default: dataset)")
    parser.add_argument(
        "--interactions", type=int, default=INTERACTIONS, help=f"how many (default: {INTERACTIONS})"
    )
    parser.add_argument("--seed", type=int, default=0, help="the same seed writes the same file (default: 0)")


def run(arguments: argparse.Namespace) -> None:
    """The command."""
    print(write(Path(arguments.data_path), arguments.dataset, arguments.interactions, arguments.seed))
