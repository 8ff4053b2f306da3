"""What is left out of the histories a recommender learns from."""

import pytest
import torch
import torch.nn.functional as F
from helpers import SMALL, build

from recbole_asarrec.data import TARGETS
from recbole_asarrec.recipe import denoise
from recbole_asarrec.recipe.denoise import drop_probability, outlier_score, sample_kept, shuffle
from recbole_asarrec.training.monitor import AugmenterMonitor

HISTORIES = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 1, 0, 0], [8, 2, 0, 0, 0]])


def two_worlds(items=400, size=8, seed=0):
    """Embeddings of a catalogue whose even items lie one way and whose odd items lie the other."""
    torch.manual_seed(seed)
    side = torch.where(torch.arange(items) % 2 == 0, 1.0, -1.0)
    return F.one_hot(torch.zeros(items, dtype=torch.long), size) * side[:, None] + 0.05 * torch.randn(
        items, size
    )


def test_against_loops():
    """The sums and the search against the definition, item by item and rival by rival."""
    torch.manual_seed(1)
    embeddings = torch.randn(40, 6)
    torch.manual_seed(2)
    found = outlier_score(HISTORIES, embeddings)
    torch.manual_seed(2)
    rivals = torch.randint(1, 40, (denoise._RANDOM_ITEMS,)).tolist()
    middle = embeddings[1:].mean(0)

    def nearness(item, others):
        towards = [F.cosine_similarity(embeddings[item] - middle, embeddings[o] - middle, 0) for o in others]
        return sum(towards) / len(towards)

    for row, history in enumerate(HISTORIES.tolist()):
        items = [item for item in history if item]
        for place, item in enumerate(items):
            own = nearness(item, items[:place] + items[place + 1 :])
            nearer = [bool(nearness(rival, items) >= own) for rival in rivals]
            # cosines that are equal but for rounding may fall on either side
            assert found[row, place].item() == pytest.approx(sum(nearer) / len(nearer), abs=0.02)
        assert (found[row, len(items) :] == 0).all()


def test_a_stranger_stands_out():
    """Items of one world fit better than half of everything; the one of the other worse than nearly all."""
    unfit = outlier_score(torch.tensor([[2, 4, 6, 8, 11, 10]]), two_worlds())[0]
    assert unfit[4] > 0.95
    assert unfit[[0, 1, 2, 3, 5]].max() < 0.55


def test_nothing_goes_before_the_embeddings_know_anything():
    """Random embeddings tell real items from random ones no better than chance."""
    torch.manual_seed(0)
    items = torch.randint(1, 5000, (64, 10))
    chances = drop_probability(items, torch.randn(5000, 32), 1.0)
    assert chances.mean() < 0.05


def test_chances_are_the_misfit_times_what_is_known():
    """The closed form, and that a strength beyond reason still gives chances."""
    items, embeddings = torch.tensor([[2, 4, 6, 8, 11, 10, 0]]), two_worlds()
    torch.manual_seed(3)
    unfit = outlier_score(items, embeddings)
    torch.manual_seed(3)
    chances = drop_probability(items, embeddings, 0.5)
    assert torch.allclose(chances, 0.5 * (1 - 2 * unfit[items > 0].mean()).clamp_min(0) * unfit)
    assert drop_probability(items, embeddings, 1e9).max() <= 1


def test_the_control_deals_out_the_same_chances():
    """Each row keeps its chances, real items alone have them, and who has which is random."""
    real = torch.tensor([[True] * 5 + [False] * 3]).repeat(200, 1)
    chances = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5, 0, 0, 0]).repeat(200, 1)
    torch.manual_seed(0)
    dealt = shuffle(chances, real)
    assert torch.equal(dealt.sort(1).values, chances.sort(1).values)
    assert (dealt[~real] == 0).all()
    assert dealt[:, :5].mean(0).sub(0.3).abs().max() < 0.05


def test_two_items_stay_or_all():
    """A sequence of one item has nothing to predict, so such a history is taken whole."""
    torch.manual_seed(0)
    items = HISTORIES.repeat(50, 1)
    assert torch.equal(sample_kept(items, torch.ones(items.shape)), items > 0)
    assert torch.equal(sample_kept(items, torch.zeros(items.shape)), items > 0)
    kept = sample_kept(items, torch.full(items.shape, 0.7))
    assert not kept[items == 0].any()
    assert (kept.sum(1) >= 2).all()
    assert kept[::3].float().mean() < 0.9


def is_part_of(short, long):
    """Whether ``short`` comes out of ``long`` by leaving things out."""
    rest = iter(long)
    return all(item in rest for item in short)


@pytest.mark.parametrize("training", ["prefix", "all_positions"])
def test_a_cleaned_batch_is_a_batch(toy, monkeypatch, training):
    """Order stays, padding stays on the right, and what comes next is what comes next of what is left."""
    _, data, model = build(training=training)
    batch = next(iter(data[0]))
    monkeypatch.setattr(denoise, "drop_probability", lambda items, *_: (items > 0) * 0.4)
    torch.manual_seed(0)
    cleaned, _ = model.denoiser(batch, model.item_embedding.weight)
    before = {}
    for history, length, target, user in zip(
        batch[model.ITEM_SEQ], batch[model.ITEM_SEQ_LEN], batch[model.POS_ITEM_ID], batch[model.USER_ID]
    ):
        before.setdefault(user.item(), []).append([*history[:length].tolist(), target.item()])
    shorter = 0
    for row in range(len(cleaned)):
        length = int(cleaned[model.ITEM_SEQ_LEN][row])
        history = cleaned[model.ITEM_SEQ][row]
        assert length >= 1 and (history[:length] > 0).all() and (history[length:] == 0).all()
        if training == "all_positions":
            following = cleaned[TARGETS][row]
            assert torch.equal(following[: length - 1], history[1:length])
            assert (following[:length] > 0).all() and (following[length:] == 0).all()
            last = following[length - 1].item()
            assert last == cleaned[model.POS_ITEM_ID][row].item()
        else:
            last = cleaned[model.POS_ITEM_ID][row].item()
        sequence = [*history[:length].tolist(), last]
        wholes = before[cleaned[model.USER_ID][row].item()]
        assert any(is_part_of(sequence, whole) for whole in wholes)
        shorter += sequence not in wholes
    assert shorter > len(cleaned) / 2
    assert cleaned[model.ITEM_SEQ].shape[1] == batch[model.ITEM_SEQ].shape[1]
    if training == "prefix":
        assert 0.4 < len(cleaned) / len(batch) < 0.85  # rows whose target is left out


def test_a_batch_whose_targets_would_all_go_stays(toy, monkeypatch):
    """There is always something to learn from, or the mean over rows would be that of none."""
    _, data, model = build()
    batch = next(iter(data[0]))

    def targets_alone(items, *_):
        last = (items > 0).sum(1, keepdim=True) - 1
        return torch.zeros(items.shape).scatter(1, last, 1.0)

    monkeypatch.setattr(denoise, "drop_probability", targets_alone)
    longer = batch[(batch[model.ITEM_SEQ_LEN] > 1).nonzero().flatten()]
    assert model.denoiser(longer, model.item_embedding.weight)[0] is longer


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, 1.0),
        ({"augmentation": "random_matrix"}, 1.0),
        ({"augmentation": "mask"}, 1.0),
        ({"augmentation": "none"}, 1.0),
        ({"contrastive_weight": 0.0}, 1.0),
        ({"recipe": "plain"}, 0.0),
        ({"recipe": "paper"}, 0.0),
        ({"recipe": "plain", "denoise_strength": 0.5}, 0.5),
        ({"denoise_strength": 0}, 0.0),
    ],
)
def test_the_recipe_decides_whatever_the_augmentation(toy, keys, expected):
    """A comparison of augmentations changes one thing only; a user's own key wins."""
    assert build(**keys)[2].settings.denoise_strength == expected


@pytest.mark.parametrize(
    ("model", "keys"),
    [
        ("AsarSASRec", {**SMALL, "loss_type": "BPR"}),
        ("AsarGRU4Rec", {"embedding_size": 16, "hidden_size": 16, "training": "prefix"}),
        ("AsarFMLPRec", {"hidden_size": 16, "inner_size": 16, "n_layers": 1}),
        ("AsarSASRec", {**SMALL, "training": "all_positions", "denoise_mode": "random"}),
    ],
)
def test_every_backbone_learns_from_what_is_left(toy, monkeypatch, model, keys):
    """Losses of a few steps are finite, and the share left out is told."""
    monkeypatch.setattr(denoise, "drop_probability", lambda items, *_: (items > 0) * 0.4)
    _, data, network = build(model, small=keys)
    network.train()
    monitor = AugmenterMonitor(network.loss_names)
    optimiser = torch.optim.Adam(network.parameters(), 1e-2)
    for batch in data[0]:
        optimiser.zero_grad()
        step = network.training_step(batch)
        monitor.update(step, network)
        total = sum(step.losses)
        assert total.isfinite()
        total.backward()
        optimiser.step()
    assert 0.2 < monitor.report()["denoised"] < 0.45
