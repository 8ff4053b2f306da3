"""The bound on what choosing views can win is only one if its variants are what they are said to be."""

import numpy as np
import pytest
import torch
from helpers import SMALL, build

from benchmarks import bound
from recbole_asarrec import AsarDataset, AsarTrainer, compat
from recbole_asarrec.data import TARGETS
from recbole_asarrec.errors import UserError
from recbole_asarrec.models.contrastive_batch import ContrastiveBatch

PAPER = {key: value for key, value in SMALL.items() if key not in ("training", "train_batch_size")} | {
    "recipe": "paper",
    "augmentation": "crop",
    "drop_repeating_users": False,
}


@pytest.fixture
def noisy(toy):
    """A batch of sequences with noise, and a model that was told where it is."""
    for model in (bound.CleanViews, bound.CleanViewsAndTargets):
        compat.register_model(model, AsarDataset, AsarTrainer)
    _, data, model = build("CleanViewsAndTargets", small=PAPER, noise_ratio=0.4)
    return next(iter(data[0])), model, data[0]._dataset.noise


def test_noise_is_found_item_by_item(noisy):
    batch, model, noise = noisy
    users, items = batch[model.USER_ID], batch[model.ITEM_SEQ]
    found = model.is_noise(users, items).numpy()
    for row, user in enumerate(users.tolist()):
        marks = noise.marks(np.full(items.size(1), user), items[row].numpy())
        assert (found[row] == (marks & (items[row].numpy() > 0))).all()
    assert 0 < found.mean() < 0.5


def test_clean_views_see_no_noise_and_the_next_item_loss_still_does(noisy):
    batch, model, _ = noisy
    histories = model.contrastive_batch(batch)
    long_enough = (batch[model.ITEM_SEQ] > 0).sum(1) > 3
    assert not model.is_noise(histories.users, histories.items)[long_enough].any()
    assert model.is_noise(batch[model.USER_ID], batch[model.ITEM_SEQ]).any(), "histories lost their noise"
    muted = batch[TARGETS].masked_fill(model.is_noise(batch[model.USER_ID], batch[TARGETS]), 0)
    assert (muted == 0).sum() > (batch[TARGETS] == 0).sum(), "there was no noise among the targets"
    assert model.recommendation_loss(batch).isfinite()


def test_disjoint_views_share_nothing_and_lose_nothing():
    items = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 0, 0, 0], [8, 0, 0, 0, 0]])
    length = torch.tensor([5, 2, 1])
    for seed in range(20):
        torch.manual_seed(seed)
        pair = bound.DisjointViews.draw_views(None, ContrastiveBatch(items, length, length, length, False))
        for row in range(2):
            one, two = ({*view.items[row].tolist()} - {0} for view in pair.views)
            assert one and two and not one & two and one | two == {*items[row].tolist()} - {0}
        assert all(view.items[2, 0] == 8 for view in pair.views)


def test_clean_data_and_unknown_variants_are_refused(toy):
    compat.register_model(bound.CleanViews, AsarDataset, AsarTrainer)
    with pytest.raises(UserError, match="noise_ratio"):
        build("CleanViews", small=PAPER)
    with pytest.raises(UserError, match="no variant 'corp'"):
        bound.run(type("Arguments", (), {"only": ["corp"]}))
