"""What ranks say: metrics, their spread over seeds, and whether a difference is more than chance.

A comparison pairs the same user under the same seed. A user's metric is averaged over the seeds first, so a
user counts once however many seeds there are; the tests ask whether the mean over users differs from zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import stats

METRICS = ("hit@10", "hit@20", "ndcg@10", "ndcg@20")
FEWEST_SEEDS = 3  # nothing is starred on fewer
_ROUNDS = 4999
_HELD = 4_000_000  # draws held in memory at once


def hit(ranks: np.ndarray, k: int) -> np.ndarray:
    """1 where a user's only target is among the first k, ``[U] → [U]``; ranks count from 1."""
    return (ranks <= k).astype(float)


def ndcg(ranks: np.ndarray, k: int) -> np.ndarray:
    """``1 / log2(rank + 1)`` within the first k, else 0, ``[U] → [U]``; of one target the ideal is 1."""
    return np.where(ranks <= k, 1 / np.log2(ranks + 1.0), 0.0)


def mrr(ranks: np.ndarray, k: int) -> np.ndarray:
    """``1 / rank`` within the first k, else 0, ``[U] → [U]``."""
    return np.where(ranks <= k, 1.0 / ranks, 0.0)


def precision(ranks: np.ndarray, k: int) -> np.ndarray:
    """The share of the first k that are a user's only target, ``[U] → [U]``."""
    return hit(ranks, k) / k


_KINDS = {"hit": hit, "recall": hit, "ndcg": ndcg, "mrr": mrr, "precision": precision}


def per_user(ranks: np.ndarray, metric: str) -> np.ndarray:
    """A metric by RecBole's name with its cutoff, as ``ndcg@10``, for every user, ``[U] → [U]``.

    Of one target recall is the same as hit.
    """
    name, _, k = metric.partition("@")
    return _KINDS[name](ranks, int(k))


class Spread(NamedTuple):
    """A metric over seeds.

    Attributes:
        mean: the mean over seeds.
        std: the sample standard deviation; nothing for one seed.
        values: one per seed, in the order of the seeds.
    """

    mean: float
    std: float | None
    values: list[float]


def spread(values: Sequence[float]) -> Spread:
    """Mean and sample standard deviation."""
    std = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Spread(float(np.mean(values)), std, [float(value) for value in values])


class Outcome(NamedTuple):
    """One method's test ranks.

    Attributes:
        ranks: by seed, ``[U]``.
        users: by seed, which users these are (``Record.users``).
        noise: by seed, the fingerprint of what was added to the training data; nothing if clean.
    """

    ranks: dict[int, np.ndarray]
    users: dict[int, str]
    noise: dict[int, str | None]

    def spread(self, metric: str) -> Spread:
        """The metric over all seeds."""
        return spread([per_user(self.ranks[seed], metric).mean() for seed in sorted(self.ranks)])


@dataclass(frozen=True)
class Comparison:
    """One method against another.

    Attributes:
        method: the first of the pair.
        baseline: the second.
        metric: what is compared.
        refused: why the two could not be paired; nothing else is set then.
        seeds: seeds that both have.
        ahead: in how many of these the method is above the baseline.
        users: users compared.
        difference: mean of ``method − baseline``.
        base: mean of the baseline, over the same users and seeds.
        interval: where 95 % of the bootstrap's differences lie.
        p_t: p of the paired two-sided t-test.
        p_bootstrap: p of the bootstrap.
        p: the larger of the two after Holm's correction over its table.
    """

    method: str
    baseline: str
    metric: str
    refused: str | None = None
    seeds: int = 0
    ahead: int = 0
    users: int = 0
    difference: float = 0.0
    base: float = 0.0
    interval: tuple[float, float] = (0.0, 0.0)
    p_t: float = 1.0
    p_bootstrap: float = 1.0
    p: float = 1.0

    @property
    def gain(self) -> float | None:
        """The difference relative to the baseline; nothing where that has 0 or they could not be paired."""
        return self.difference / self.base if self.base else None

    @property
    def stars(self) -> str:
        """The paper's: ``**`` for an improvement with p < 0.05, ``*`` with p < 0.1."""
        if self.refused or self.seeds < FEWEST_SEEDS or self.difference <= 0:
            return ""
        return "**" if self.p < 0.05 else "*" if self.p < 0.1 else ""


def common_seeds(first: Outcome, second: Outcome) -> tuple[list[int], str | None]:
    """The seeds that two methods can be paired by, and why not where they cannot."""
    seeds = sorted(set(first.ranks) & set(second.ranks))
    if not seeds:
        return [], "they share no seed"
    both = [(one, seed) for seed in seeds for one in (first, second)]
    if len({one.users[seed] for one, seed in both}) > 1:
        return [], "they were tested on different users"
    if len({one.noise[seed] for one, seed in both}) > 1:
        return [], "they were trained on different noise"
    if len(first.ranks[seeds[0]]) < 2:
        return [], "there are fewer than two users"
    return seeds, None


def differences(first: Outcome, second: Outcome, seeds: Sequence[int], metric: str) -> np.ndarray:
    """``first − second`` of every user under each of ``seeds``, ``[S, U]``."""
    return np.stack(
        [per_user(first.ranks[seed], metric) - per_user(second.ranks[seed], metric) for seed in seeds]
    )


def t_test(values: np.ndarray) -> float:
    """p of the two-sided t-test of paired differences ``[U]`` against 0; 1 where no user differs."""
    return float(stats.ttest_1samp(values, 0.0).pvalue) if np.any(values) else 1.0


def resample(values: np.ndarray, rounds: int = _ROUNDS, seed: int = 0) -> np.ndarray:
    """Means of ``rounds`` draws of U users with replacement, all columns on the same draws.

    Args:
        values: a column for each comparison, ``[U, C]``.
        rounds: how many draws.
        seed: of the draws.

    Returns:
        ``[rounds, C]``.
    """
    users = len(values)
    rng = np.random.default_rng(seed)
    chunk = max(_HELD // users, 1)
    means = []
    for start in range(0, rounds, chunk):
        drawn = rng.integers(users, size=(min(chunk, rounds - start), users))
        times = np.stack([np.bincount(row, minlength=users) for row in drawn])  # [chunk, U]
        means.append(times.astype(float) @ values / users)
    return np.concatenate(means)


def bootstrap(values: np.ndarray, rounds: int = _ROUNDS, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Test mean differences by resampling users.

    Args:
        values: differences of every user, a column for each comparison, ``[U, C]``.
        rounds: how many resamples.
        seed: of the resamples.

    Returns:
        Two-sided p under a mean of 0 ``[C]``, and where 95 % of the resampled means lie ``[2, C]``.
    """
    observed = values.mean(0)
    means = resample(values, rounds, seed)
    # a hair of slack, so that rounding does not decide whether equal means are equal
    as_far = np.abs(means - observed) >= np.abs(observed) * (1 - 1e-12)
    return (1 + as_far.sum(0)) / (1 + rounds), np.percentile(means, [2.5, 97.5], axis=0)


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down correction of the p-values of one family."""
    values = np.asarray(p, dtype=float)
    order = np.argsort(values, kind="stable")
    factors = len(values) - np.arange(len(values))
    corrected = np.empty_like(values)
    corrected[order] = np.minimum(np.maximum.accumulate(values[order] * factors), 1.0)
    return [float(value) for value in corrected]


def compare(outcomes: dict[str, Outcome], pairs: Sequence[tuple[str, str, str]]) -> list[Comparison]:
    """Compare ``(method, baseline, metric)``, one family of tests.

    Args:
        outcomes: the methods by name.
        pairs: what to compare; a pair that cannot be paired says why and is no part of the family.
    """
    results: list[Comparison] = []
    columns: dict[int, np.ndarray] = {}
    for number, (method, baseline, metric) in enumerate(pairs):
        seeds, refused = common_seeds(outcomes[method], outcomes[baseline])
        result = Comparison(method, baseline, metric, refused)
        if refused is None:
            each = differences(outcomes[method], outcomes[baseline], seeds, metric)  # [S, U]
            columns[number] = column = each.mean(0)
            result = replace(
                result,
                seeds=len(seeds),
                ahead=int((each.mean(1) > 0).sum()),
                users=len(column),
                difference=float(column.mean()),
                base=float(np.mean([per_user(outcomes[baseline].ranks[seed], metric) for seed in seeds])),
                p_t=t_test(column),
            )
        results.append(result)
    for users in sorted({len(column) for column in columns.values()}):
        alike = [number for number, column in columns.items() if len(column) == users]
        p, interval = bootstrap(np.stack([columns[number] for number in alike], axis=1))
        for place, number in enumerate(alike):
            low, high = interval[:, place]
            results[number] = replace(
                results[number], p_bootstrap=float(p[place]), interval=(float(low), float(high))
            )
    done = list(columns)
    by_t, by_bootstrap = (
        holm([getattr(results[number], test) for number in done]) for test in ("p_t", "p_bootstrap")
    )
    for number, *both in zip(done, by_t, by_bootstrap):
        results[number] = replace(results[number], p=max(both))
    return results
