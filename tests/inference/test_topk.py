"""The best items by blocks are the best of the whole catalogue."""

import pytest
import torch

from recbole_asarrec.inference import topk
from recbole_asarrec.inference.topk import Excluded, top_by_product, top_of_scores

pytestmark = pytest.mark.arithmetic


@pytest.fixture
def blocks(monkeypatch):
    """Blocks and groups so small that every edge of them is met."""
    monkeypatch.setattr(topk, "ROWS", 3)
    monkeypatch.setattr(topk, "COLUMNS", 50)
    monkeypatch.setattr(topk, "_GROUP", 4)


@pytest.mark.parametrize("columns", [1, 7, 64, 65, 127, 1000])
@pytest.mark.parametrize("k", [1, 3, 10, 2000])
def test_groups_against_a_sort(columns, k, blocks):
    scores = torch.randn(5, columns, generator=torch.Generator().manual_seed(columns))
    found = top_of_scores(scores, k)
    value, item = scores.sort(1, descending=True)
    assert torch.equal(found.scores, value[:, :k]) and torch.equal(found.items, item[:, :k])


def test_groups_are_used_where_they_pay(monkeypatch):
    """Without this the test of groups could pass without any."""
    calls = []
    real = torch.Tensor.amax
    monkeypatch.setattr(torch.Tensor, "amax", lambda self, *a: calls.append(self.shape) or real(self, *a))
    top_of_scores(torch.randn(2, 16_000), 10)
    assert calls == [(2, 250, 64)]
    top_of_scores(torch.randn(2, 2_000), 10)
    assert len(calls) == 1


@pytest.mark.parametrize("items", [2, 30, 51, 52, 240])
@pytest.mark.parametrize("k", [1, 4, 25, 1000])
def test_blocks_against_the_whole_product(items, k, blocks):
    """Padding is never recommended; what is excluded comes with −∞, if there is nothing else."""
    generator = torch.Generator().manual_seed(items * k)
    users, vectors = torch.randn(8, 6, generator=generator), torch.randn(items, 6, generator=generator)
    row = torch.tensor([0, 0, 3, 7, 7, 7])
    excluded = Excluded(row, torch.randint(1, items, (6,), generator=generator))
    for left_out in (None, excluded):
        scores = users @ vectors.T
        scores[:, 0] = -torch.inf
        if left_out is not None:
            scores[left_out.row, left_out.item] = -torch.inf
        found = top_by_product(users, vectors, k, left_out)
        expected = scores[:, 1:].sort(1, descending=True).values[:, :k]
        assert torch.allclose(found.scores, expected, atol=1e-5)
        assert found.items.min() > 0 and found.items.max() < items
        assert torch.allclose(scores.gather(1, found.items), found.scores, atol=1e-5)
        assert all(len(set(one.tolist())) == found.items.size(1) for one in found.items)
        assert torch.equal(found.counts(), expected.isfinite().sum(1))


def test_no_more_than_a_block_of_scores_is_held(monkeypatch):
    """A million items for a thousand users would be 4 GB."""
    sizes = []
    real = topk.top_of_scores
    monkeypatch.setattr(topk, "top_of_scores", lambda s, k: sizes.append(s.shape) or real(s, k))
    top_by_product(torch.randn(300, 2), torch.randn(40_000, 2), 5)
    assert max(rows for rows, _ in sizes) <= topk.ROWS and max(n for _, n in sizes) <= topk.COLUMNS
    assert sum(rows * n for rows, n in sizes) == 300 * 39_999
