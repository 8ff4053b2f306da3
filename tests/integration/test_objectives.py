"""Other objectives of the augmenter are compared fairly only if they train the augmenter alone."""

import pytest
import torch
from helpers import SMALL, build

from benchmarks import bound, objectives
from recbole_asarrec import AsarDataset, AsarTrainer, compat

PAPER = {key: value for key, value in SMALL.items() if key not in ("training", "train_batch_size")} | {
    "recipe": "paper",
    "drop_repeating_users": False,
}
JUDGES = (objectives.LabelPreserving, objectives.GradientAgreement, objectives.HardAgainstHistory)


def built(model, **keys):
    compat.register_model(model, AsarDataset, AsarTrainer)
    _, data, made = build(model.__name__, small=PAPER, **keys)
    return next(iter(data[0])), made.train()


@pytest.mark.parametrize("model", JUDGES, ids=lambda model: model.__name__)
def test_a_judgement_trains_the_augmenter_and_nothing_else(toy, model):
    batch, made = built(model, augmentation="asar", gradient_reversal=0.0, diversity_weight=0.0)
    step = made.training_step(batch)
    step.losses[2].backward()
    assert made.training and all(one.requires_grad for one in made.parameters())
    for name, one in made.named_parameters():
        moved = one.grad is not None and bool(one.grad.abs().max() > 0)
        assert not moved or name.startswith("augmenter."), name
    assert any(one.grad is not None and one.grad.abs().max() > 0 for one in made.augmenter.parameters())


def test_gradients_agree_with_those_of_autograd(toy):
    """The closed forms of both gradients, against torch's, for one view."""
    batch, made = built(objectives.GradientAgreement, augmentation="asar", gradient_reversal=0.0)
    histories = made.contrastive_batch(batch)
    torch.manual_seed(0)
    size = (len(histories.items), made.item_embedding.embedding_dim)
    history, view = torch.randn(size).requires_grad_(), torch.randn(size)
    torch.manual_seed(1)
    found = made.judge(view, history.detach(), histories)
    torch.manual_seed(1)
    target, other = made.target_and_other(histories)
    bce = torch.nn.functional.softplus(-(history * target).sum(-1)) + torch.nn.functional.softplus(
        (history * other).sum(-1)
    )
    (wanted,) = torch.autograd.grad(bce.sum(), history)
    scores = torch.nn.functional.normalize(history, dim=-1) @ torch.nn.functional.normalize(view, dim=-1).T
    infonce = torch.nn.functional.cross_entropy(
        scores / made.settings.temperature, torch.arange(len(view)), reduction="sum"
    )
    (moved,) = torch.autograd.grad(infonce, history)
    expected = -torch.nn.functional.cosine_similarity(moved, wanted, dim=-1).mean()
    assert found.item() == pytest.approx(expected.item(), abs=1e-5)


def test_views_predict_what_follows_in_the_history(toy, monkeypatch):
    """Targets of a view's positions, against a loop."""
    batch, made = built(bound.ViewsPredict, augmentation="mask")
    seen = []

    def note(encoded, embedding, targets, history, negatives):
        seen.append(targets)
        return encoded.sum() * 0

    monkeypatch.setattr(made, "next_item", note)
    histories = made.contrastive_batch(batch)
    pair = made.draw_views(histories)
    made.contrast(histories, pair)
    for view, targets in zip(pair.views, seen, strict=True):
        expected = []
        for row, history in enumerate(histories.items.tolist()):
            sequence = [*history[: histories.length[row]], int(histories.target[row])]
            items = view.items[row, : view.length[row]].tolist()
            expected += [sequence[sequence.index(item) + 1] for item in items]
        assert targets.tolist() == expected
