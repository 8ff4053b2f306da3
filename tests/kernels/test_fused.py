"""Speed-ups against what they replace."""

import pytest
import torch
import torch.nn.functional as F
from helpers import assert_same_gradients, build
from recbole.utils import get_trainer
from torch import nn

from recbole_asarrec.kernels import fused
from recbole_asarrec.kernels.dropout import ByteDropout, random_bytes, use_byte_dropout
from recbole_asarrec.kernels.fused import catalogue_cross_entropy, use_fused_adam


@pytest.mark.parametrize("rows", [1, 7, 300])
def test_cross_entropy_equals_torchs(rows, monkeypatch):
    """Chunks of every kind: one row, a cut last chunk, all at once."""
    torch.manual_seed(0)
    items = torch.randn(53, 8, requires_grad=True)
    encoded, targets = torch.randn(23, 8, requires_grad=True), torch.randint(0, 53, (23,))
    monkeypatch.setattr(fused, "_CHUNK", rows * 53)
    expected = F.cross_entropy(encoded @ items.T, targets)
    wanted = torch.autograd.grad(expected * 3, (encoded, items))
    loss = catalogue_cross_entropy(encoded, items, targets)
    found = torch.autograd.grad(loss * 3, (encoded, items))
    assert torch.allclose(loss, expected, atol=1e-6)
    for a, b in zip(wanted, found):
        assert torch.allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("q", [0.2, 1.0])
def test_robust_cross_entropy_equals_its_formula(q, monkeypatch):
    """Zhang and Sabuncu's L_q, with torch's own gradient; at q = 1 it is the mean absolute error 1 − p."""
    torch.manual_seed(0)
    items = torch.randn(53, 8, requires_grad=True)
    encoded, targets = torch.randn(23, 8, requires_grad=True), torch.randint(0, 53, (23,))
    monkeypatch.setattr(fused, "_CHUNK", 7 * 53)
    p = (encoded @ items.T).softmax(1).gather(1, targets[:, None])
    expected = ((1 - p**q) / q).mean()
    wanted = torch.autograd.grad(expected, (encoded, items))
    loss = catalogue_cross_entropy(encoded, items, targets, gce_q=q)
    assert torch.allclose(loss, expected, atol=1e-6)
    for a, b in zip(wanted, torch.autograd.grad(loss, (encoded, items))):
        assert torch.allclose(a, b, atol=1e-6)


def test_cross_entropy_survives_huge_scores_and_half_precision():
    encoded = torch.tensor([[1e4, 0.0], [0.0, -1e4]], requires_grad=True)
    loss = catalogue_cross_entropy(encoded, torch.eye(2).half() * 100, torch.tensor([0, 1]))
    loss.backward()
    assert loss.isfinite() and encoded.grad.isfinite().all()


def test_fused_equals_recboles_loss_and_gradients(toy):
    keys = {"hidden_dropout_prob": 0.0, "attn_dropout_prob": 0.0, "augmentation": "none", "recipe": "plain"}
    _, data, model = build(**keys)
    _, _, plain = build(**keys, fused=False)
    plain.load_state_dict(model.state_dict())
    batch = next(iter(data[0]))
    one, two = model.calculate_loss(batch), plain.calculate_loss(batch)
    assert one.item() == pytest.approx(two.item(), rel=1e-6)
    assert_same_gradients((model, one), (plain, two))


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_fused_adam_takes_the_same_steps(kind):
    """Twenty steps beside torch's default, one weight without a gradient, as an augmenter that sits out."""
    torch.manual_seed(0)
    start = torch.randn(40, 8)
    own, fused_own = (nn.ParameterList([start.clone(), torch.zeros(3)]) for _ in range(2))
    optimisers = [kind(weights, lr=0.1, weight_decay=0.01) for weights in (own, fused_own)]
    use_fused_adam(optimisers[1])
    for _ in range(20):
        grad = torch.randn(40, 8)
        for weights, optimiser in zip((own, fused_own), optimisers):
            weights[0].grad = grad.clone()
            optimiser.step()
    assert torch.allclose(own[0], fused_own[0], atol=1e-5)
    assert not torch.allclose(own[0], start, atol=0.1) and torch.equal(fused_own[1], torch.zeros(3))


def test_the_trainer_takes_it_unless_told_otherwise(toy):
    """Other optimisers have no fused form that every torch knows, and stay as they are."""
    for keys, expected in (({}, True), ({"fused": False}, None), ({"learner": "rmsprop"}, "absent")):
        config, _, model = build(**keys)
        trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, model)
        assert trainer.optimizer.param_groups[0].get("fused", "absent") == expected, keys


def test_bytes_are_uniform():
    """`random_()` without bounds leaves the top bit at zero: every eighth byte would be below 128."""
    torch.manual_seed(0)
    drawn = random_bytes(8 * 100_000).view(-1, 8)
    for place in range(8):
        counts = torch.bincount(drawn[:, place].int(), minlength=256).float()
        expected = 100_000 / 256
        chi_squared = ((counts - expected) ** 2 / expected).sum()
        assert chi_squared < 330.5, (
            f"byte {place}: chi² {chi_squared:.0f}"
        )  # p = .001, 255 degrees of freedom
    assert random_bytes(13).shape == (13,)


@pytest.mark.parametrize("p", [0.1, 0.2, 0.5, 0.9])
def test_dropout_drops_p_and_keeps_the_mean(p):
    torch.manual_seed(0)
    layer, value = ByteDropout(p), torch.ones(1000, 1000, requires_grad=True)
    out = layer(value)
    kept = (out > 0).float().mean().item()
    assert abs(kept - (1 - p)) < 1 / 256 + 0.002
    assert out.mean().item() == pytest.approx(1, abs=0.01)
    assert len(out.unique()) == 2
    out.sum().backward()
    assert torch.equal(value.grad, out.detach()), "the gradient has another mask than the value"


def test_dropout_is_torchs_where_it_should_be():
    value = torch.randn(50)
    assert torch.equal(ByteDropout(0.5).eval()(value), value)
    assert torch.equal(ByteDropout(0.0)(value), value)
    assert (ByteDropout(1.0)(value) == 0).all()
    torch.manual_seed(3)
    first = ByteDropout(0.5)(value)
    torch.manual_seed(3)
    assert torch.equal(first, ByteDropout(0.5)(value))


def test_every_dropout_of_a_model_is_replaced(toy):
    _, _, model = build()
    kinds = {type(module) for module in model.modules() if isinstance(module, nn.Dropout)}
    assert kinds == {ByteDropout}
    _, _, stock = build(byte_dropout=False)
    assert {type(module) for module in stock.modules() if isinstance(module, nn.Dropout)} == {nn.Dropout}
    use_byte_dropout(stock)
    assert {type(module) for module in stock.modules() if isinstance(module, nn.Dropout)} == {ByteDropout}
