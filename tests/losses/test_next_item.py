"""What AsarRec changes of the softmax: items that users already had, and targets nobody can foretell."""

import pytest
import torch
import torch.nn.functional as F
from helpers import SMALL, assert_same_gradients, build

from recbole_asarrec.data import TARGETS
from recbole_asarrec.errors import ConfigError
from recbole_asarrec.kernels import fused
from recbole_asarrec.kernels.fused import catalogue_cross_entropy
from recbole_asarrec.losses.next_item import every_prefix, reweight_history

QUIET = {"hidden_dropout_prob": 0.0, "attn_dropout_prob": 0.0}


def naive(scores, targets, seen, weight):
    """−log of the target's share, where every item is counted by hand."""
    losses = []
    for row, target, had in zip(scores, targets, seen):
        count = [weight if i and i in had and i != target else 1 for i in range(len(row))]
        losses.append((torch.tensor(count) * row.exp()).sum().log() - row[target])
    return torch.stack(losses).mean()


@pytest.fixture
def case():
    """Histories with repeats, with padding, with the target among them, and an empty one."""
    torch.manual_seed(0)
    seen = torch.tensor([[3, 3, 0], [1, 2, 4], [5, 0, 0], [0, 0, 0]])
    return torch.randn(4, 6), torch.randn(7, 6), torch.tensor([1, 2, 6, 3]), seen


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_both_ways_of_counting_equal_the_naive_one(case, rows, monkeypatch):
    encoded, items, targets, seen = case
    encoded.requires_grad_(), items.requires_grad_()
    monkeypatch.setattr(fused, "_CHUNK", rows * len(items))
    wanted = naive(encoded @ items.T, targets.tolist(), seen.tolist(), 5.0)
    slopes = torch.autograd.grad(wanted, (encoded, items))
    plain = F.cross_entropy(reweight_history(encoded @ items.T, targets, seen, 5.0), targets)
    quick = catalogue_cross_entropy(encoded, items, targets, seen, 5.0)
    for found in (plain, quick):
        assert torch.allclose(found, wanted, atol=1e-6)
        for a, b in zip(torch.autograd.grad(found, (encoded, items)), slopes):
            assert torch.allclose(a, b, atol=1e-6)


def test_weight_one_is_the_plain_softmax(case):
    encoded, items, targets, seen = case
    plain = catalogue_cross_entropy(encoded, items, targets)
    assert torch.allclose(catalogue_cross_entropy(encoded, items, targets, seen, 1.0), plain)


def test_every_prefix():
    assert every_prefix(torch.tensor([[7, 8, 0]])).tolist() == [[[7, 0, 0], [7, 8, 0], [7, 8, 0]]]


def test_all_positions_count_what_each_place_had(toy):
    """The windows' loss is that of the places one by one, each with its own prefix."""
    keys = {
        **QUIET,
        "training": "all_positions",
        "history_penalty": 4.0,
        "augmentation": "none",
        "recipe": "plain",
    }
    _, data, model = build(**keys)
    batch = next(iter(data[0]))
    losses = []
    for history, targets in zip(batch[model.ITEM_SEQ], batch[TARGETS]):
        for place in (targets > 0).nonzero().flatten().tolist():
            prefix = history[None, : place + 1]
            scores = model.forward(prefix, torch.tensor([place + 1])) @ model.item_embedding.weight.T
            losses.append(naive(scores, [int(targets[place])], prefix.tolist(), 4.0))
    assert model.calculate_loss(batch).item() == pytest.approx(torch.stack(losses).mean().item(), rel=1e-5)


@pytest.mark.parametrize("training", ["prefix", "all_positions"])
def test_fused_or_not_is_the_same(toy, training):
    keys = {
        **QUIET,
        "training": training,
        "history_penalty": 3.0,
        "gce_q": 0.3,
        "augmentation": "none",
        "recipe": "plain",
    }
    _, data, model = build(**keys)
    _, _, plain = build(**keys, fused=False)
    plain.load_state_dict(model.state_dict())
    batch = next(iter(data[0]))
    assert_same_gradients((model, model.calculate_loss(batch)), (plain, plain.calculate_loss(batch)))


def test_what_has_no_such_softmax_says_so(toy):
    assert build(loss_type="BPR")[2].next_item.history_penalty == 1.0
    with pytest.raises(ConfigError, match="history_penalty needs a softmax.*SASRec with loss_type BPR"):
        build(loss_type="BPR", history_penalty=2.0)
    with pytest.raises(ConfigError, match=r"gce_q needs a softmax.*; set 0\."):
        build(loss_type="BPR", gce_q=0.1)
    with pytest.raises(ConfigError, match="'history_penalty' must be 'auto' or a number at least 1"):
        build(history_penalty=0.5)
    assert (
        build("AsarNARM", small={k: SMALL[k] for k in ("epochs", "state")})[2].next_item.history_penalty
        == 1.0
    )
