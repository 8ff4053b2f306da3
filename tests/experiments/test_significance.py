"""Metrics against closed forms, tests against SciPy and against simulations where the truth is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import draw_ranks
from scipy import stats

from recbole_asarrec.experiments import significance
from recbole_asarrec.experiments.significance import (
    Comparison,
    Outcome,
    bootstrap,
    compare,
    differences,
    holm,
    ndcg,
    per_user,
    resample,
    spread,
    t_test,
)


def outcome(effect: float, seeds=(1, 2, 3), users="everyone", number=400, noise=None) -> Outcome:
    ranks = {seed: draw_ranks(effect, seed, number) for seed in seeds}
    return Outcome(ranks, dict.fromkeys(seeds, users), dict.fromkeys(seeds, noise))


def test_metrics_of_one_target_have_closed_forms():
    ranks = np.array([1, 3, 10, 11, 20, 21], dtype=np.uint32)
    assert per_user(ranks, "hit@10").tolist() == [1, 1, 1, 0, 0, 0]
    assert per_user(ranks, "hit@20").tolist() == [1, 1, 1, 1, 1, 0]
    assert per_user(ranks, "ndcg@10").tolist() == pytest.approx([1, 0.5, 1 / np.log2(11), 0, 0, 0])
    assert ndcg(np.array([2**32 - 1], dtype=np.uint32), 10).tolist() == [0]  # no overflow of rank + 1


def test_spread_is_the_sample_standard_deviation():
    assert spread([1, 2, 4]).std == pytest.approx(np.sqrt(7 / 3))
    assert spread([1.5]) == (1.5, None, [1.5])


def test_a_user_is_averaged_over_seeds_before_the_t_test():
    """Paired by user and seed; seeds do not multiply the users."""
    first, second = outcome(0.3), outcome(0.0)
    column = differences(first, second, [1, 2, 3], "ndcg@10").mean(0)
    means = [
        np.mean([per_user(one.ranks[s], "ndcg@10") for s in (1, 2, 3)], axis=0) for one in (first, second)
    ]
    assert len(column) == 400
    assert t_test(column) == pytest.approx(stats.ttest_rel(*means).pvalue, rel=1e-9)


def test_no_difference_at_all_is_no_evidence():
    """SciPy gives NaN for differences that are all zero."""
    assert t_test(np.zeros(10)) == 1
    assert bootstrap(np.zeros((10, 1)))[0].tolist() == [1]


def test_bootstrap_agrees_with_scipys():
    values = np.random.default_rng(3).exponential(size=(300, 2)) - 0.9
    _, interval = bootstrap(values, rounds=9999)
    for column in (0, 1):
        reference = stats.bootstrap((values[:, column],), np.mean, method="percentile", n_resamples=9999)
        assert interval[:, column] == pytest.approx(tuple(reference.confidence_interval), abs=0.01)


def test_resampling_draws_users_with_replacement(monkeypatch):
    """Against a loop: the same draws, averaged one by one, for rounds that do not fill the last chunk."""
    monkeypatch.setattr(significance, "_HELD", 7 * 64)
    values = np.random.default_rng(0).normal(size=(7, 3))
    means = resample(values, rounds=70, seed=5)
    rng = np.random.default_rng(5)
    drawn = np.concatenate([rng.integers(7, size=(64, 7)), rng.integers(7, size=(6, 7))])
    assert means == pytest.approx(np.array([values[row].mean(0) for row in drawn]))


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_is_the_textbooks(p):
    """The corrected p is the largest over the smaller ones of p times how many are left."""
    corrected = holm(p)
    order = sorted(range(len(p)), key=lambda i: p[i])
    for place, i in enumerate(order):
        expected = max(p[j] * (len(p) - k) for k, j in enumerate(order[: place + 1]))
        assert corrected[i] == pytest.approx(min(expected, 1))


def test_false_positives_are_as_rare_as_promised():
    """Under the null 5 % of each test's p lie below 0.05 (±3 standard errors of 1,000 simulations)."""
    rng = np.random.default_rng(11)
    # hits that differ for few users, as between two seeds of one method
    values = rng.choice([-1.0, 0.0, 1.0], p=[0.1, 0.8, 0.1], size=(300, 1000))
    by_t = np.array([t_test(column) for column in values.T])
    by_bootstrap, _ = bootstrap(values, rounds=999)
    for p in (by_t, by_bootstrap):
        assert abs((p < 0.05).mean() - 0.05) < 3 * np.sqrt(0.05 * 0.95 / 1000)


def test_holm_keeps_a_whole_table_within_its_promise():
    """Of 300 tables of twenty true nulls each, about 5 % have any p below 0.05, not 64 %."""
    rng = np.random.default_rng(12)
    tables = stats.ttest_1samp(rng.normal(size=(50, 300, 20)), 0).pvalue
    assert (tables.min(1) < 0.05).mean() > 0.5
    corrected = np.array([holm(table) for table in tables])
    assert (corrected.min(1) < 0.05).mean() < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)


def test_a_real_effect_is_starred_and_noise_is_not():
    methods = {"asar": outcome(0.5), "baseline": outcome(0.0), "same": outcome(0.001)}
    real, chance, worse = compare(
        methods,
        [("asar", "baseline", "ndcg@10"), ("same", "baseline", "ndcg@10"), ("baseline", "asar", "ndcg@10")],
    )
    assert real.stars == "**" and real.difference > 0 and real.interval[0] > 0
    assert chance.stars == "" and chance.p > 0.1
    assert worse.stars == "" and worse.p < 0.05  # as sure, and no improvement
    assert real.users == 400 and real.seeds == 3


@pytest.mark.parametrize(("p", "stars"), [(0.0499, "**"), (0.05, "*"), (0.0999, "*"), (0.1, "")])
def test_stars_are_the_papers(p, stars):
    assert Comparison("a", "b", "hit@10", seeds=3, difference=0.1, p=p).stars == stars


def test_nothing_is_starred_on_two_seeds():
    methods = {"asar": outcome(2.0, seeds=(1, 2)), "baseline": outcome(0.0)}
    (result,) = compare(methods, [("asar", "baseline", "hit@10")])
    assert result.seeds == 2 and result.p < 0.001 and result.stars == ""


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (outcome(0.0, seeds=(7, 8, 9)), "share no seed"),
        (outcome(0.0, users="others"), "different users"),
        (outcome(0.0, noise="other"), "different noise"),
    ],
)
def test_what_cannot_be_paired_is_refused(other, reason):
    """And is no part of the family: the other comparison is corrected as if alone."""
    methods = {"asar": outcome(0.3), "other": other, "baseline": outcome(0.2)}
    refused, fine = compare(methods, [("asar", "other", "hit@10"), ("asar", "baseline", "hit@10")])
    assert reason in refused.refused and refused.stars == ""
    assert fine.refused is None and fine.p == max(fine.p_t, fine.p_bootstrap)
