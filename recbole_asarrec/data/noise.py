"""Noise in training data: random unseen items in the place of, or between, what users really did.

Section 5 of the paper. The noise depends on the data, the ratio, the kind and the noise's own seed alone:
every method and every seed of a comparison meets the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Noise:
    """What was added to a dataset.

    Attributes:
        ratio: share of each user's training items.
        kind: ``replace`` or ``insert``.
        scope: ``train`` or ``train_and_history``.
        seed: of the noise.
        pairs: every noisy interaction as ``user · n_items + item``, sorted; nobody did any of these, so a
            pair tells noise from data, ``[K]``.
        n_items: size of the catalogue, padding included.
    """

    ratio: float
    kind: str
    scope: str
    seed: int
    pairs: np.ndarray
    n_items: int

    def marks(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Which of these interactions are noise, ``[N], [N] → [N]`` bool."""
        return np.isin(users.astype(np.int64) * self.n_items + items, self.pairs)

    @property
    def fingerprint(self) -> str:
        """Two datasets with the same fingerprint hold the same noise."""
        return hashlib.sha256(self.pairs.tobytes()).hexdigest()[:16]

    def describe(self) -> dict[str, Any]:
        """As plain data, for results."""
        said = {name: getattr(self, name) for name in ("ratio", "kind", "scope", "seed", "fingerprint")}
        return {**said, "interactions": len(self.pairs)}


def _position_and_size(groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Place of each element in its group and the group's size; groups lie together, ``[N] → [N], [N]``."""
    begins = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]])
    size = np.diff(np.r_[begins, len(groups)])
    return np.arange(len(groups)) - np.repeat(begins, size), np.repeat(size, size)


def training_part(users: np.ndarray, held_out: int) -> np.ndarray:
    """Mark what RecBole's leave-one-out trains on.

    Args:
        users: whose interaction each is, users together and in time's order, ``[N]``.
        held_out: interactions left out of every user's end; a user always keeps two, one to predict from.
    """
    position, size = _position_and_size(users)
    return position < size - np.clip(size - 2, 0, held_out)


def choose(users: np.ndarray, allowed: np.ndarray, ratio: float, random: np.random.Generator) -> np.ndarray:
    """Pick ``⌊ratio · m⌋`` of every user's m allowed interactions, ``[N], [N] → [K]`` in ascending order."""
    index = np.flatnonzero(allowed)
    shuffled = index[np.lexsort((random.random(len(index)), users[index]))]
    position, size = _position_and_size(users[shuffled])
    return np.sort(shuffled[position < np.floor(ratio * size + 1e-9)])


def draw_unseen(
    users: np.ndarray, seen: np.ndarray, n_items: int, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw an item for each of ``users`` that they neither have nor were given already.

    Args:
        users: users together, ``[K]``.
        seen: ``user · n_items + item`` of everything anybody has, ``[N]``.
        n_items: items are 1 … n_items − 1.
        random: where draws come from.

    Returns:
        The drawn items, and which of ``users`` got one, both ``[K]``: a user who has nearly everything runs
        out.
    """
    position, _ = _position_and_size(users) if len(users) else (users, users)
    owner, count = np.unique(np.unique(seen) // n_items, return_counts=True)
    left = np.full(int(max(users.max(initial=0), owner.max(initial=0))) + 1, n_items - 1)
    left[owner] -= count
    served = position < left[users]
    items = np.zeros(len(users), dtype=np.int64)
    taken, waiting = np.unique(seen), np.flatnonzero(served)
    while len(waiting):
        pair = users[waiting].astype(np.int64) * n_items + random.integers(1, n_items, len(waiting))
        _, first = np.unique(pair, return_index=True)
        new = np.zeros(len(waiting), dtype=bool)
        new[first] = ~np.isin(pair[first], taken, assume_unique=True)
        items[waiting[new]] = pair[new] % n_items
        taken = np.union1d(taken, pair[new])
        waiting = waiting[~new]
    return items, served


def add_noise(
    frame: pd.DataFrame,
    columns: tuple[str, str, str],
    n_items: int,
    held_out: int,
    settings: Any,
) -> tuple[pd.DataFrame, Noise]:
    """Put noise into the training part of everybody's history.

    Args:
        frame: interactions in any order; it is not changed.
        columns: names of user, item and time.
        n_items: size of the catalogue, padding included.
        held_out: interactions at every user's end that stay as they are.
        settings: has ``noise_ratio``, ``noise_kind``, ``noise_scope`` and ``noise_seed``.

    Returns:
        The noisy interactions, in the order of users and time, and what was added. An inserted row takes the
        values of the interaction it is put before, but for the item.
    """
    user, item, time = columns
    ordered = frame.sort_values([user, time], kind="stable", ignore_index=True)
    users, items = ordered[user].to_numpy(), ordered[item].to_numpy()
    random = np.random.default_rng(settings.noise_seed)
    chosen = choose(users, training_part(users, held_out), settings.noise_ratio, random)
    drawn, served = draw_unseen(users[chosen], users.astype(np.int64) * n_items + items, n_items, random)
    chosen, drawn = chosen[served], drawn[served]
    if settings.noise_kind == "insert":
        ordered = ordered.loc[np.sort(np.r_[np.arange(len(ordered)), chosen])].reset_index(drop=True)
        where = chosen + np.arange(len(chosen))  # each is pushed back by those before it
    else:
        where = chosen
    ordered.iloc[where, ordered.columns.get_loc(item)] = drawn
    pairs = np.sort(users[chosen].astype(np.int64) * n_items + drawn)
    kept = (settings.noise_ratio, settings.noise_kind, settings.noise_scope, settings.noise_seed)
    return ordered, Noise(*kept, pairs, n_items)
