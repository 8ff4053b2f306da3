"""Estimators are compared fairly only if each is what its name says."""

import pytest
import torch
from helpers import SMALL, build
from torch.distributions import Gumbel

from benchmarks import adversary, estimators
from recbole_asarrec.augment import View
from recbole_asarrec.losses import info_nce

PAPER = {key: value for key, value in SMALL.items() if key not in ("training", "train_batch_size")} | {
    "recipe": "paper",
    "drop_repeating_users": False,
    "contrastive_weight": 1.0,
}


@pytest.fixture
def frozen(toy):
    """A recommender without dropout that stands still, its histories, and a new augmenter."""
    _, data, model = build("AsarSASRec", small=PAPER, augmentation="asar")
    model.eval().requires_grad_(False)
    return model, adversary.take(model, next(iter(data[0])))


def test_the_longest_history_of_each_user_is_taken(frozen):
    model, histories = frozen
    assert len(histories.users.unique()) == len(histories.users)
    rows = model.columns
    batch = {
        rows.user: torch.tensor([3, 5, 3, 3]),
        rows.length: torch.tensor([1, 2, 3, 2]),
        rows.items: torch.tensor([[7, 0, 0], [8, 9, 0], [7, 6, 5], [7, 6, 0]]),
        rows.target: torch.tensor([6, 4, 2, 5]),
    }
    taken = adversary.take(model, batch)
    assert taken.users.tolist() == [5, 3] and taken.items.tolist() == [[8, 9, 0], [7, 6, 5]]


def test_infonce_of_each_is_infonce():
    torch.manual_seed(0)
    first, second, users = torch.randn(7, 4), torch.randn(7, 4), torch.arange(7)
    each = estimators.infonce_of_each(first, second, users, 0.1)
    assert each.shape == (7,)
    assert each.mean().item() == pytest.approx(info_nce(first, second, users, 0.1).item(), rel=1e-5)
    with pytest.raises(ValueError, match="another user"):
        estimators.infonce_of_each(first, second, users.clamp_max(3), 0.1)


def test_mixed_views_against_a_loop():
    torch.manual_seed(0)
    soft, embedded = torch.rand(2, 5, 5), torch.randn(2, 5, 3)
    view = View(
        items=torch.tensor([[4, 2, 9], [6, 0, 0]]),
        length=torch.tensor([3, 1]),
        column=torch.tensor([[0, 1, 3], [2, 0, 1]]),
        source=torch.tensor([[0, 2, 4], [1, -1, -1]]),
    )
    mixed = estimators.mix(soft, embedded, view)
    for row, length in enumerate(view.length.tolist()):
        for position in range(3):
            expected = torch.zeros(3)
            if position < length:
                for item in range(5):
                    expected += soft[row, item, view.column[row, position]] * embedded[row, item]
            assert torch.allclose(mixed[row, position], expected)


def test_the_score_is_the_gradient_of_the_noise_s_log_density(frozen):
    """Against torch's Gumbel distribution; entries that do not exist have no say."""
    model, _ = frozen
    matrices = adversary.new_augmenter(model, "asar", estimators.ScoredAugmenter).matrices
    logits = torch.randn(3, 6, 6, requires_grad=True)
    valid = torch.ones(3, 6, dtype=torch.bool)
    valid[1, 2:4] = False
    torch.manual_seed(0)
    matrices._transform(logits, valid, valid.sum(1) - 1)
    (found,) = torch.autograd.grad(matrices.score.sum(), logits)
    torch.manual_seed(0)
    drawn = logits.detach() - (-torch.rand_like(logits).clamp_min(1e-30).log()).log()
    real = valid[:, :, None] & valid[:, None, :]
    (expected,) = torch.autograd.grad((Gumbel(logits, 1.0).log_prob(drawn) * real).sum(), logits)
    assert torch.allclose(found, expected, atol=1e-4)
    assert (found[1, 2:4] == 0).all() and (found[1, :, 2:4] == 0).all()


@pytest.mark.parametrize("name", estimators.ESTIMATORS)
def test_an_estimator_moves_the_augmenter_and_nothing_else(frozen, name):
    model, histories = frozen
    estimator = estimators.ESTIMATORS[name]
    model.augmenter = adversary.new_augmenter(model, "asar", estimator.matrices)
    torch.manual_seed(0)
    estimator.loss(model, histories).backward()
    for parameter, one in model.named_parameters():
        moved = one.grad is not None and bool(one.grad.abs().max() > 0)
        assert not moved or parameter.startswith("augmenter."), parameter
    assert model.augmenter.matrices.encoder.project.weight.grad.abs().max() > 0
