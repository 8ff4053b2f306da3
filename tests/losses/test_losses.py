"""Losses against closed forms and naive references."""

import math

import pytest
import torch
import torch.nn.functional as F

from recbole_asarrec.augment import TransformMatrix, to_matrix
from recbole_asarrec.losses import (
    SequenceQuality,
    diversity_loss,
    info_nce,
    ndcg_floor,
    semantic_loss,
    sequence_ndcg,
)
from recbole_asarrec.losses.diversity import matrix_distance

pytestmark = pytest.mark.arithmetic


def naive_info_nce(first, second, users, temperature):
    total = 0.0
    for i in range(len(users)):
        scores = [
            math.exp(F.cosine_similarity(first[i], second[j], dim=0).item() / temperature)
            for j in range(len(users))
            if j == i or users[j] != users[i]
        ]
        own = math.exp(F.cosine_similarity(first[i], second[i], dim=0).item() / temperature)
        total -= math.log(own / sum(scores))
    return total / len(users)


def test_infonce_equals_the_naive_sum_and_spares_the_same_user():
    torch.manual_seed(0)
    first, second, users = torch.randn(6, 4), torch.randn(6, 4), torch.tensor([1, 2, 2, 3, 1, 4])
    assert info_nce(first, second, users, 0.3).item() == pytest.approx(
        naive_info_nce(first, second, users, 0.3), rel=1e-5
    )


def test_infonce_closed_forms():
    same, users = torch.ones(8, 3), torch.arange(8)
    assert info_nce(same, same, users, 0.2).item() == pytest.approx(math.log(8), rel=1e-6)
    assert info_nce(same[:1], same[:1], users[:1], 0.2).item() == 0
    axes = torch.eye(4)
    expected = -math.log(math.e / (math.e + 3))
    assert info_nce(axes, axes, users[:4], 1.0).item() == pytest.approx(expected, rel=1e-6)


def test_infonce_symmetric_does_not_care_for_the_order():
    torch.manual_seed(1)
    first, second, users = torch.randn(5, 4), torch.randn(5, 4), torch.arange(5)
    one_way, other = info_nce(first, second, users, 0.2), info_nce(second, first, users, 0.2)
    both = info_nce(first, second, users, 0.2, symmetric=True)
    assert both.item() == pytest.approx(((one_way + other) / 2).item(), rel=1e-6)
    assert one_way.item() != pytest.approx(other.item(), rel=1e-3)


def identity(n, k=2):
    return TransformMatrix(torch.arange(n)[None], torch.eye(n + k)[None].clone().requires_grad_())


def test_ndcg_star_of_the_papers_case_study():
    """n = 15, γ = 0.1: the paper prints 0.7355. This fixes gain, discount and the floor of γn together."""
    assert ndcg_floor(torch.tensor([15]), 0.1, 1).item() == pytest.approx(0.735494, abs=1e-6)


def test_ndcg_star_of_short_histories():
    """⌊γn⌋ = 0 would forbid every edit to 84 % of Beauty's users; with least = 0 it does, as written."""
    short = torch.tensor([5, 9])
    assert (ndcg_floor(short, 0.1, 0) == 1).all() and (ndcg_floor(short, 0.1, 1) < 1).all()


@pytest.mark.parametrize("exponential", [False, True])
def test_ndcg_equals_a_naive_sum(exponential):
    torch.manual_seed(2)
    n, k, size = 6, 2, 8
    source = torch.stack([torch.randperm(size)[:n] for _ in range(5)])
    source[0, 3] = -1
    score = sequence_ndcg(
        TransformMatrix(source, torch.zeros(5, size, size)), torch.full((5,), n), exponential
    )

    def gain(item):
        place = item + 1 if 0 <= item < n else 0
        return 2.0**place - 1 if exponential else float(place)

    ideal = sum(gain(j) / math.log2(n - j + 1) for j in range(n))
    for row, value in zip(source.tolist(), score.tolist()):
        naive = sum(gain(i) / math.log2(n - j + 1) for j, i in enumerate(row)) / ideal
        assert value == pytest.approx(naive, rel=1e-5)
    assert k == size - n


def test_ndcg_of_the_original_order_is_one_even_when_padded():
    transform = TransformMatrix(torch.tensor([[0, 1, 2, -1, -1]]), torch.zeros(1, 7, 7))
    assert sequence_ndcg(transform, torch.tensor([3])).item() == pytest.approx(1)


def test_ndcg_gradient_is_that_of_the_straight_through_matrix():
    torch.manual_seed(3)
    n, size, length = 4, 6, torch.tensor([4, 3])
    source = torch.tensor([[0, 4, 2, 1], [2, 1, -1, -1]])
    soft = torch.rand(2, size, size, requires_grad=True)
    sequence_ndcg(TransformMatrix(source, soft), length).sum().backward()

    naive = soft.detach().clone().requires_grad_()
    matrix = (to_matrix(source, size) - naive[:, :, :n]).detach() + naive[:, :, :n]
    total = 0
    for b in range(2):
        m = int(length[b])
        ideal = sum((j + 1) / math.log2(m - j + 1) for j in range(m))
        total = (
            total
            + sum(matrix[b, i, j] * (i + 1) / math.log2(m - j + 1) for i in range(m) for j in range(m))
            / ideal
        )
    total.backward()
    assert torch.allclose(soft.grad, naive.grad, atol=1e-6)


def test_semantic_loss_is_zero_above_the_floor_and_linear_below():
    floor = torch.tensor([0.7, 0.7])
    above = SequenceQuality((torch.tensor([0.8, 0.7]), torch.tensor([0.9, 1.0])), floor)
    below = SequenceQuality((torch.tensor([0.6, 0.7]), torch.tensor([0.5, 0.7])), floor)
    assert semantic_loss(above).item() == 0
    assert semantic_loss(below).item() == pytest.approx(0.15)


def test_distance_value_and_gradient_equal_those_of_the_matrices():
    torch.manual_seed(4)
    one, two = torch.tensor([[0, 1, 2, 5], [1, 0, -1, 3]]), torch.tensor([[0, 2, 1, 3], [1, 0, 2, -1]])
    soft = [torch.rand(2, 6, 6, requires_grad=True) for _ in range(2)]
    distance = matrix_distance(TransformMatrix(one, soft[0]), TransformMatrix(two, soft[1]))
    naive = [part.detach().clone().requires_grad_() for part in soft]
    first, second = (
        (to_matrix(plan, 6) - part[:, :, :4]).detach() + part[:, :, :4]
        for plan, part in zip((one, two), naive)
    )
    expected = (first - second).square().sum((1, 2))
    assert torch.allclose(distance, expected, atol=1e-5)
    distance.sum().backward()
    expected.sum().backward()
    for mine, theirs in zip(soft, naive):
        assert torch.allclose(mine.grad, theirs.grad, atol=1e-5)


def test_diversity_of_identical_views_is_the_whole_margin():
    view = identity(10)
    assert diversity_loss(view, view, torch.tensor([10]), 20.0, 0.2).item() == pytest.approx(
        4
    )  # 0.2 · 2 · 10
    assert diversity_loss(view, view, torch.tensor([10]), 20.0, 0.0).item() == pytest.approx(20)  # literal ε
