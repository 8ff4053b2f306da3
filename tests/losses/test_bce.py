"""BCE with sampled negatives, as SASRec's authors train: against loops and RecBole's BPR."""

import numpy as np
import pytest
import torch
from helpers import SMALL, build
from recbole.config import Config
from recbole.model.loss import BPRLoss
from recbole.quick_start import run_recbole

from recbole_asarrec.data import TARGETS, UnseenNegatives
from recbole_asarrec.errors import ConfigError
from recbole_asarrec.losses.next_item import bce_loss

STILL = {"hidden_dropout_prob": 0.0, "attn_dropout_prob": 0.0, "augmentation": "none", "recipe": "plain"}


def naive(encoded, table, targets, negatives):
    losses = []
    for vector, target, others in zip(encoded, targets, negatives):
        positive = -torch.sigmoid(vector @ table[target]).log()
        wrong = [-(1 - torch.sigmoid(vector @ table[other])).log() for other in others]
        losses.append(positive + sum(wrong) / len(wrong))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("count", [1, 4])
def test_against_a_loop(count):
    torch.manual_seed(0)
    table = torch.nn.Embedding(9, 5)
    encoded, targets = torch.randn(7, 5), torch.randint(1, 9, (7,))
    negatives = torch.randint(1, 9, (7, count))
    found = bce_loss(encoded, table, targets, negatives)
    assert torch.allclose(found, naive(encoded, table.weight, targets, negatives), atol=1e-6)


def test_bpr_is_what_bce_is_for_the_difference():
    """With one negative, RecBole's BPR of a pair is the BCE of its score difference."""
    positive, negative = torch.randn(6), torch.randn(6)
    softplus = torch.nn.functional.softplus(negative - positive).mean()
    assert torch.allclose(BPRLoss()(positive, negative), softplus, atol=1e-5)


@pytest.mark.parametrize("training", ["prefix", "all_positions"])
def test_the_models_loss_is_that_of_every_target(toy, training, monkeypatch):
    _, data, model = build(**STILL, loss_type="BCE", training=training, num_negatives=2)
    batch = next(iter(data[0]))
    drawn = []
    original = UnseenNegatives.forward

    def remember(self, users, count):
        drawn.append((users, original(self, users, count)))
        return drawn[-1][1]

    monkeypatch.setattr(UnseenNegatives, "forward", remember)
    found = model.calculate_loss(batch)
    ((users, negatives),) = drawn
    encoded, targets, owners = [], [], []
    items, length = batch[model.ITEM_SEQ], batch[model.ITEM_SEQ_LEN]
    for row in range(len(items)):
        ends = [int(length[row])] if training == "prefix" else range(1, int(length[row]) + 1)
        for end in ends:
            encoded.append(model.encode(items[row : row + 1, :end], torch.tensor([end]))[0])
            last = batch[model.POS_ITEM_ID][row] if training == "prefix" else batch[TARGETS][row, end - 1]
            targets.append(int(last))
            owners.append(int(batch[model.USER_ID][row]))
    assert users.tolist() == owners
    expected = naive(torch.stack(encoded), model.item_embedding.weight, targets, negatives)
    assert found.item() == pytest.approx(expected.item(), rel=1e-4)


def test_negatives_are_uniform_over_what_the_user_has_not_seen():
    users, items = np.array([1, 1, 1, 2]), np.array([3, 4, 5, 1])
    sampler = UnseenNegatives(users, items, n_items=8)
    torch.manual_seed(0)
    drawn = sampler(torch.tensor([1, 2]), 8000)
    counts = [torch.bincount(row, minlength=8).tolist() for row in drawn]
    assert [number == 0 for number in counts[0]] == [True, False, False, True, True, True, False, False]
    assert [number == 0 for number in counts[1]] == [True, True, False, False, False, False, False, False]
    expected = 2000
    assert all(abs(number - expected) < 5 * expected**0.5 for number in counts[0] if number)


def test_a_user_who_has_seen_everything_still_gets_negatives():
    """There is nothing unseen to draw; training uses what there is."""
    sampler = UnseenNegatives(np.array([1, 1]), np.array([1, 2]), n_items=3)
    assert set(sampler(torch.tensor([1]), 50).flatten().tolist()) <= {1, 2}


@pytest.mark.parametrize("model", ["AsarSASRec", "AsarGRU4Rec", "AsarFMLPRec"])
def test_every_backbone_trains_by_it_and_is_loaded_again(toy, model):
    keys = {key: SMALL[key] for key in ("epochs", "state", "show_progress") if key in SMALL}
    result = run_recbole(
        model=model, dataset="toy", config_dict={**keys, "loss_type": "BCE", "recipe": "plain"}
    )
    assert result["test_result"]["hit@10"] > 0
    from recbole.quick_start import load_data_and_model

    (file,) = (toy / "saved").glob("*.pth")
    config, loaded, *_ = load_data_and_model(str(file))
    assert config["loss_type"] == "BCE" and loaded.loss_type == "BCE"


def test_stock_models_and_other_losses_are_as_before(toy):
    with pytest.raises(ConfigError, match="'loss_type' must be one of CE, BPR, BCE, but is 'BSE'"):
        Config("AsarSASRec", "toy", config_dict={"loss_type": "BSE"})
    with pytest.raises(ConfigError, match="inner products, which NARM does not; use CE or BPR"):
        build("AsarNARM", small={"state": "ERROR"}, loss_type="BCE", recipe="plain")
    for loss in ("BCE", "BPR"):  # CORE raises NotImplementedError, GRU4RecCPR calls sys.exit
        for model in ("AsarCORE", "AsarGRU4RecCPR"):
            with pytest.raises(ConfigError, match=f"{model} cannot have loss_type {loss}"):
                build(model, small={"state": "ERROR"}, loss_type=loss, recipe="plain")
    with pytest.raises(ConfigError, match="gce_q needs a softmax"):
        build(loss_type="BCE", gce_q=0.1)


def test_batches_count_users_where_asked_for(toy):
    _, data, _ = build(training="all_positions", batch_by="users", train_batch_size=32)
    sizes = [len(batch) for batch in data[0]]
    assert max(sizes) == 32 and sum(sizes) == data[0].sample_size and sizes.count(32) >= len(sizes) - 1
