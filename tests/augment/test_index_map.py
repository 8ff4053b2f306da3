"""A plan is what the augmenter decides; these are the promises it keeps to the user's history."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_asarrec.augment import (
    Augmenter,
    build_view,
    cap_edits,
    carry_gradient,
    edit_budget,
    never_empty,
    sample_unseen,
    to_matrix,
)
from recbole_asarrec.config.settings import AsarSettings
from recbole_asarrec.training.monitor import count_edits

pytestmark = pytest.mark.arithmetic


def test_budget_is_not_fooled_by_binary_fractions():
    lengths = torch.tensor([1, 9, 10, 15, 29, 30, 50])
    assert edit_budget(lengths, 0.1, 1).tolist() == [1, 1, 1, 1, 2, 3, 5]
    assert edit_budget(lengths, 0.1, 0).tolist() == [0, 0, 1, 1, 2, 3, 5]
    assert edit_budget(lengths, 0.1, 1, up=True).tolist() == [1, 1, 1, 2, 3, 3, 5]


@pytest.mark.parametrize(
    ("source", "keep_score", "budget", "expected"),
    [
        # a three-cycle with one edit left becomes a swap: item 2 to place 0, item 0 to place 2
        ([2, 0, 1], [0.0, 0.5, 0.6], 1, [2, 1, 0]),
        # with two edits left, item 1, displaced at the end of the chain, takes the place left free
        ([2, 0, 1], [0.0, 0.5, 0.6], 2, [2, 0, 1]),
        # a candidate (index 3) replaces item 1; the drop of item 2 is undone
        ([0, 3, -1], [0.9, 0.1, 0.2], 1, [0, 3, 2]),
        # no budget, no edit
        ([1, 0, -1], [0.1, 0.1, 0.1], 0, [0, 1, 2]),
        # within the budget nothing changes
        ([1, 0, -1], [0.1, 0.1, 0.1], 3, [1, 0, -1]),
    ],
)
def test_cap_undoes_the_least_wanted_edits(source, keep_score, budget, expected):
    plan, cling = torch.tensor([source]), torch.tensor([keep_score])
    valid = torch.ones_like(plan, dtype=torch.bool)
    assert cap_edits(plan, cling, torch.tensor([budget]), valid).tolist() == [expected]


@settings(max_examples=80, deadline=None)
@given(n=st.integers(1, 12), k=st.integers(0, 4), seed=st.integers(0, 9999), budget=st.integers(0, 5))
def test_a_capped_plan_is_still_a_plan(n, k, seed, budget):
    """Whatever is undone, no item may appear twice, and at most twice the budget of places may differ."""
    generator = torch.Generator().manual_seed(seed)
    full = torch.stack([torch.randperm(n + k, generator=generator) for _ in range(5)])
    source = full[:, :n].masked_fill(torch.rand(5, n, generator=generator) < 0.2, -1)
    cling = torch.rand(5, n, generator=generator)
    capped = cap_edits(source, cling, torch.full((5,), budget), torch.ones(5, n, dtype=torch.bool))
    for dim in (1, 2):
        assert to_matrix(capped, n + k).sum(dim).max() <= 1
    assert ((capped != torch.arange(n)).sum(1) <= 2 * budget).all()


def test_an_empty_plan_gets_its_strongest_entry():
    scores = torch.zeros(1, 3, 3)
    scores[0, 2, 1] = 0.4
    assert never_empty(torch.tensor([[-1, -1]]), scores).tolist() == [[-1, 2]]
    assert never_empty(torch.tensor([[0, -1]]), scores).tolist() == [[0, -1]]


def test_a_view_closes_gaps_to_the_left_and_keeps_the_newest_of_too_many():
    expanded = torch.tensor([[11, 12, 13, 14, 99]])
    view = build_view(expanded, torch.tensor([[0, -1, 4, 2]]))
    assert view.items.tolist() == [[11, 99, 13, 0]] and view.length.tolist() == [3]
    newest = build_view(expanded, torch.tensor([[0, -1, 4, 2]]), width=2)
    assert newest.items.tolist() == [[99, 13]] and newest.length.tolist() == [2]


def test_a_view_never_writes_into_its_input():
    """A view function that did was a real bug in a well-known peer."""
    expanded, source = torch.tensor([[1, 2, 3]]), torch.tensor([[2, -1, 0]])
    copies = expanded.clone(), source.clone()
    build_view(expanded, source)
    assert torch.equal(expanded, copies[0]) and torch.equal(source, copies[1])


def test_view_equals_the_matrix_product():
    """`build_view` gathers; the paper multiplies. They must agree on every embedding."""
    torch.manual_seed(0)
    table, expanded = torch.randn(20, 6), torch.randint(1, 20, (4, 7))
    source = torch.stack([torch.randperm(7)[:5] for _ in range(4)])
    product = to_matrix(source, 7).transpose(1, 2) @ table[expanded]  # Mᵀ·E
    assert torch.equal(product, table[build_view(expanded, source).items])


def test_carried_gradient_is_that_of_the_straight_through_product():
    """`carry_gradient` skips the forward product; its gradients must be those of Algorithm 1's last line."""
    torch.manual_seed(1)
    expanded = torch.randint(1, 20, (3, 6))
    source = torch.tensor([[0, 4, 2, 3], [1, -1, 5, 0], [3, 2, -1, -1]])
    table = torch.randn(20, 8)
    probe = torch.randn(3, 4, 8)
    view = build_view(expanded, source)
    soft = torch.rand(3, 6, 6, requires_grad=True)
    out = carry_gradient(table[view.items], soft, table[expanded], view, scale=-2.0)
    assert torch.equal(out, table[view.items])
    (out * probe).sum().backward()

    naive = torch.rand(3, 6, 6, requires_grad=True)
    hard = torch.zeros(3, 6, 6)
    hard[:, :, :4] = to_matrix(source, 6)
    matrix = (hard - naive).detach() + naive
    compact = matrix.gather(2, view.column[:, None, :].expand(3, 6, 4))
    real = (torch.arange(4) < view.length[:, None])[..., None]
    (compact.transpose(1, 2) @ table[expanded] * probe * real).sum().backward()
    assert torch.allclose(soft.grad, -2.0 * naive.grad, atol=1e-5)


def test_candidates_are_unseen_different_and_absent_when_there_are_too_few():
    torch.manual_seed(0)
    seen = torch.randint(0, 200, (64, 30))
    drawn = sample_unseen(seen, 5, 200)
    assert (drawn > 0).all() and not (drawn[:, :, None] == seen[:, None, :]).any()
    assert all(len(set(row)) == 5 for row in drawn.tolist())
    few = sample_unseen(torch.tensor([[1, 2, 3, 4]]), 3, 6)  # only item 5 is unseen
    assert sorted(few[0].tolist()) in ([0, 0, 0], [0, 0, 5])
    assert sample_unseen(torch.tensor([[1]]), 0, 6).shape == (1, 0)


def test_candidates_are_uniform_over_the_unseen():
    torch.manual_seed(0)
    drawn = sample_unseen(torch.tensor([[1, 2]]).expand(20_000, 2), 1, 7).squeeze(1)
    counts = torch.bincount(drawn, minlength=7)
    expected = torch.tensor([0, 0, 0, *[5_000] * 4])
    chi_squared = ((counts - expected)[3:].float() ** 2 / 5_000).sum()
    assert counts[:3].sum() == 0 and chi_squared < 16.3  # p = .001, three degrees of freedom


@pytest.mark.parametrize("null_item", [True, False])
@pytest.mark.parametrize("n", [1, 2, 5, 10, 20, 50])
def test_training_starts_at_the_allowed_share_of_edits(n, null_item):
    """Bias 3 without noise gave 0 % edits for ever; a bias fixed for one length is wrong for the others."""
    torch.manual_seed(n)
    augmenter = Augmenter(AsarSettings(edit_cap=False, null_item=null_item), 8)
    size = n + 3 + null_item
    valid = torch.ones(400, size, dtype=torch.bool)
    with torch.no_grad():
        first, second = augmenter(torch.zeros(400, size, 8), valid, torch.full((400,), n))
    edited = (first.source != torch.arange(n)).float().mean().item()
    low = 0.5 if n == 1 else 0.7  # one item cannot be masked: the view would be empty
    assert low * max(0.1, min(0.5, 1 / n)) < edited < 1.4 * max(0.1, 1 / n)
    assert not torch.equal(first.source, second.source)


def test_edit_kinds_add_up():
    source = torch.tensor([[0, 2, 1, 5, -1], [5, 1, -1, -1, -1]])  # candidates are 5 and 6
    length = torch.tensor([5, 2])
    kinds = {name: count.tolist() for name, count in count_edits(source, length).items()}
    assert kinds == {
        "kept": [1, 1],
        "dropped": [2, 1],
        "moved": [2, 0],
        "inserted": [0, 0],
        "substituted": [1, 1],
        "masked": [0, 0],
        "cropped": [1, 0],
    }
