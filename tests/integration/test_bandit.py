"""A bandit that chooses operations must come to choose the useful one of each context."""

import pytest
import torch
from helpers import SMALL, build

from benchmarks.bandit import OperationBandit
from recbole_asarrec import AsarDataset, AsarTrainer, compat

PAPER = {key: value for key, value in SMALL.items() if key not in ("training", "train_batch_size")} | {
    "recipe": "paper",
    "drop_repeating_users": False,
}
OPERATIONS = ["crop", "mask", "reorder", "insert"]


@pytest.fixture
def built(toy):
    compat.register_model(OperationBandit, AsarDataset, AsarTrainer)
    _, data, model = build("OperationBandit", small=PAPER, augmentation=OPERATIONS)
    return next(iter(data[0])), model.train()


def test_the_useful_operation_of_a_context_becomes_likely(built):
    views = built[1].augmenter
    assert torch.allclose(views.probability(), torch.full((4, 4), 0.25)), "the prior is uniform"
    torch.manual_seed(0)
    length = torch.tensor([3, 20]).repeat(200)  # in the first context mask is useful, in the last crop
    useful = torch.tensor([1, 0]).repeat(200)
    for _ in range(50):
        drawn = views.choose(4, length)
        views.learn(length, drawn, (drawn == useful).float() + 0.1 * torch.randn(400))
    likely = views.probability()
    assert likely[0].argmax() == 1 and likely[3].argmax() == 0 and likely[[0, 3]].max(1).values.min() > 0.7
    assert likely[[1, 2]].max() == pytest.approx(0.25), "contexts that were not met keep the prior"
    assert likely.min() >= 0.2 / 4, "every operation is tried now and then"


def test_utilities_are_means_over_the_histories_of_a_context(built):
    views = built[1].augmenter
    length, drawn = torch.tensor([1, 4, 5, 30]), torch.tensor([2, 2, 2, 0])
    views.learn(length, drawn, torch.tensor([1.0, 3.0, 5.0, 7.0]))
    expected = torch.zeros(4, 4)
    expected[0, 2], expected[1, 2], expected[3, 0] = 2.0, 5.0, 7.0
    assert torch.allclose(views.utility, expected * 0.02)


def test_a_step_teaches_the_bandit_and_leaves_the_encoder_s_gradient_alone(built):
    batch, model = built
    torch.manual_seed(0)
    step = model.training_step(batch)
    sum(step.losses).backward()
    assert len(model.augmenter.drawn) == 2 and model.augmenter.utility.abs().max() > 0
    assert model.training and all(one.requires_grad for one in model.parameters())
