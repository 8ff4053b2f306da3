"""Semi-Sinkhorn is the heart of the method: it must equal Algorithm 1 and survive any input."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from recbole_asarrec.augment import mutual_argmax, semi_sinkhorn, to_matrix

pytestmark = pytest.mark.arithmetic


def random_scores(batch: int, size: int, seed: int, sharpness: float = 1.0) -> torch.Tensor:
    """Rows of a softmax, ``[batch, size, size]``."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(batch, size, size, generator=generator) * sharpness).softmax(-1)


def naive(matrix: np.ndarray, rounds: int, threshold: float) -> np.ndarray:
    """Algorithm 1 as it stands in the paper, one user, plain loops."""
    s = matrix.astype(np.float64).copy()
    size = len(s)
    for _ in range(rounds):
        for i in range(size):
            if s[i].sum() > 1e-8:
                s[i] /= s[i].sum()
        for j in range(size):
            if s[:, j].sum() > 1e-8:
                s[:, j] /= s[:, j].sum()
        rows = [i for i in range(size) if size > 1 and s[i].max() - s[i].min() < threshold / size]
        columns = [j for j in range(size) if size > 1 and s[:, j].max() - s[:, j].min() < threshold / size]
        s[rows], s[:, columns] = 0, 0
    return s


@pytest.mark.parametrize("threshold", [0.0, 0.1, 2.0])
@pytest.mark.parametrize("size", [1, 2, 7, 20])
def test_equals_the_naive_loop_of_algorithm_1(size, threshold):
    scores = random_scores(8, size, seed=size)
    soft = semi_sinkhorn(scores, torch.ones(8, size, dtype=torch.bool), 10, threshold)
    for one, expected in zip(soft, scores):
        assert np.allclose(one.numpy(), naive(expected.numpy(), 10, threshold), atol=1e-5)


def test_padding_changes_nothing():
    """A user's matrix may not depend on how long the longest user of the batch is."""
    scores = random_scores(4, 6, seed=1)
    alone = semi_sinkhorn(scores, torch.ones(4, 6, dtype=torch.bool))
    padded = torch.rand(4, 9, 9)
    padded[:, :6, :6] = scores
    valid = torch.arange(9).expand(4, 9) < 6
    together = semi_sinkhorn(padded, valid)
    assert torch.allclose(together[:, :6, :6], alone, atol=1e-6)
    assert together[:, 6:].sum() == 0 and together[:, :, 6:].sum() == 0


DEGENERATE = {
    "all equal": torch.full((1, 5, 5), 0.2),
    "one-hot": torch.eye(5)[None],
    "one column wanted by all": torch.eye(5)[None, :1].repeat(1, 5, 1),
    "zeros": torch.zeros(1, 5, 5),
    "length 1": torch.ones(1, 1, 1),
    "huge logits": (torch.randn(1, 5, 5) * 1e30).softmax(-1),
    "tiny logits": (torch.randn(1, 5, 5) * 1e-30).softmax(-1),
    "tiny entries": torch.rand(1, 5, 5) * 1e-30,
    "huge entries": torch.rand(1, 5, 5) * 1e30,
    "one entry dwarfs the rest": torch.full((1, 5, 5), 1e-12) + torch.eye(5) * 1e12,
}


@pytest.mark.parametrize("threshold", [0.0, 0.1])
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_matrices_stay_finite_forward_and_backward(name, threshold):
    """`x / sum.clamp_min(1e-8)` passes the forward half of this test and fails the backward one."""
    scores = DEGENERATE[name].clone().requires_grad_()
    soft = semi_sinkhorn(scores, torch.ones(scores.shape[:2], dtype=torch.bool), 10, threshold)
    soft.square().sum().backward()
    assert soft.isfinite().all() and scores.grad.isfinite().all()
    assert_semi_doubly_stochastic(mutual_argmax(soft.detach()), scores.size(1))


def assert_semi_doubly_stochastic(source, size):
    matrix = to_matrix(source, size)
    for dim in (1, 2):
        assert set(matrix.sum(dim).unique().tolist()) <= {0.0, 1.0}


@settings(max_examples=60, deadline=None)
@given(
    size=st.integers(1, 12),
    seed=st.integers(0, 10_000),
    sharpness=st.floats(1e-3, 1e3),
    threshold=st.floats(0, 5),
    rounds=st.integers(1, 12),
)
def test_any_matrix_gives_a_hard_semi_doubly_stochastic_one(size, seed, sharpness, threshold, rounds):
    generator = torch.Generator().manual_seed(seed)
    logits = (torch.randn(3, size, size, generator=generator) * sharpness).requires_grad_()
    valid = torch.rand(3, size, generator=generator) < 0.8
    soft = semi_sinkhorn(logits.softmax(-1), valid, rounds, threshold)
    (soft * torch.randn(soft.shape, generator=generator)).sum().backward()
    assert soft.isfinite().all() and logits.grad.isfinite().all()
    source = mutual_argmax(soft.detach())
    assert_semi_doubly_stochastic(source, size)
    assert (source[~valid] == -1).all(), "a position that does not exist got an item"


def test_rounds_bring_rows_closer_to_one():
    """The projection must converge, else T would be a meaningless key."""
    scores, valid = random_scores(16, 10, seed=3, sharpness=2), torch.ones(16, 10, dtype=torch.bool)
    off = [(semi_sinkhorn(scores, valid, t, 0.0).sum(2) - 1).abs().max().item() for t in (1, 10, 50)]
    assert off[0] > off[1] > off[2] and off[2] < 1e-2


def test_gradient_equals_finite_differences():
    scores = random_scores(2, 5, seed=4).double().requires_grad_()
    valid = torch.ones(2, 5, dtype=torch.bool)
    assert torch.autograd.gradcheck(lambda s: semi_sinkhorn(s, valid, 5, 0.0), scores)


def greedy(matrix: np.ndarray) -> dict[int, int]:
    """Take the largest entry, cross out its row and column, repeat: mutual argmax does it in parallel."""
    rest, taken = matrix.copy(), {}
    while rest.max() > 0:
        i, j = np.unravel_index(rest.argmax(), rest.shape)
        taken[int(j)] = int(i)
        rest[i], rest[:, j] = 0, 0
    return taken


def test_mutual_argmax_is_the_greedy_assignment_and_near_the_exact_one():
    """SciPy's exact assignment is the oracle; the parallel rule must not lose more than two per cent."""
    soft = semi_sinkhorn(
        random_scores(64, 12, seed=5, sharpness=2), torch.ones(64, 12, dtype=torch.bool), 10, 0.0
    )
    source = mutual_argmax(soft)
    reached = best = 0.0
    for one, plan in zip(soft.numpy(), source.numpy()):
        assert {j: i for j, i in enumerate(plan) if i >= 0} == greedy(one)
        rows, columns = linear_sum_assignment(one, maximize=True)
        best += one[rows, columns].sum()
        reached += sum(one[i, j] for j, i in enumerate(plan) if i >= 0)
    assert 0.98 * best <= reached <= best + 1e-4


def test_one_pass_takes_only_the_first_mutual_maxima():
    scores = torch.tensor([[[0.9, 0.8], [0.7, 0.1]]])
    assert mutual_argmax(scores, one_pass=True).tolist() == [[0, -1]]
    assert mutual_argmax(scores).tolist() == [[0, 1]]


def test_ties_leave_items_in_place():
    """An undecided augmenter should do nothing rather than something arbitrary."""
    assert mutual_argmax(torch.full((2, 4, 4), 0.25)).tolist() == [[0, 1, 2, 3]] * 2


def test_nothing_is_written_into_the_input():
    scores = random_scores(2, 4, seed=6)
    copy = scores.clone()
    mutual_argmax(scores)
    semi_sinkhorn(scores, torch.ones(2, 4, dtype=torch.bool))
    assert torch.equal(scores, copy)


def naive_slack(scores, rounds):
    """Rows and columns in turn, the last of each left as it is."""
    soft = scores.copy()
    for _ in range(rounds):
        soft[:-1] /= soft[:-1].sum(1, keepdims=True)
        soft[:, :-1] /= soft[:, :-1].sum(0, keepdims=True)
    return soft


def test_with_slack_the_last_row_and_column_are_not_normalized():
    """Any position may stay empty and any item go nowhere, so nothing bounds the null item."""
    scores = np.random.default_rng(0).random((6, 6)) + 0.1
    found = semi_sinkhorn(torch.tensor(scores)[None], torch.ones(1, 6, dtype=torch.bool), 7, 0.0, slack=True)
    assert found[0].numpy() == pytest.approx(naive_slack(scores, 7))
    assert found[0, -1].sum() > 1.01 or found[0, :, -1].sum() > 1.01


def test_the_gradient_with_slack_is_that_of_the_definition():
    scores = torch.rand(2, 5, 5, dtype=torch.double, generator=torch.Generator().manual_seed(1)) + 0.1
    valid = torch.tensor([[True] * 5, [True, True, True, False, True]])
    assert torch.autograd.gradcheck(
        lambda x: semi_sinkhorn(x, valid, 3, 0.0, slack=True), (scores.requires_grad_(),)
    )


def test_with_slack_positions_stay_empty_and_items_go_nowhere():
    scores = torch.tensor(
        [
            [0.9, 0.0, 0.0, 0.1],  # stays
            [0.0, 0.3, 0.0, 0.6],  # goes nowhere, and nobody else wants its position
            [0.0, 0.2, 0.4, 0.1],  # wants its position, which would rather stay empty
            [0.1, 0.1, 0.5, 0.0],
        ]
    )[None]
    assert mutual_argmax(scores, slack=True).tolist() == [[0, 2, -1, -1]]
    assert mutual_argmax(scores).tolist() == [[0, 3, 2, 1]] or mutual_argmax(scores)[0, 3] == 1
