"""The averaged weights: what is validated, saved and used."""

import copy

import pytest
import torch
from helpers import SMALL, build
from recbole.model.sequential_recommender.sasrec import SASRec
from recbole.quick_start import run_recbole
from recbole.trainer import Trainer

from recbole_asarrec.training import checkpoint


def weights(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def same(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def train(model, batches, steps, after_step=lambda: None):
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    model.train()
    for number in range(steps):
        optimiser.zero_grad()
        losses = model.calculate_loss(batches[number % len(batches)])
        (sum(losses) if isinstance(losses, tuple) else losses).backward()
        optimiser.step()
        after_step()


def test_it_is_the_average_after_every_step(toy):
    """Against the recurrence, with the weights written down after each step."""
    _, data, model = build(ema_decay=0.9)
    expected = weights(model)
    taken = 0

    def note():
        nonlocal taken
        taken += 1
        decay = min(0.9, taken / (taken + 10))
        for name, p in model.named_parameters():
            expected[name] = decay * expected[name] + (1 - decay) * p.detach()

    train(model, list(data[0]), 30, note)
    trained = weights(model)
    model.eval()
    for name, found in weights(model).items():
        wanted = trained if name.startswith("augmenter.") else expected
        assert torch.allclose(found, wanted[name], atol=1e-6), name
    model.train()
    assert same(weights(model), trained)


def test_looking_changes_nothing(toy):
    """Validating between steps, once or often, leaves training and the average as they were."""
    ends = []
    for look in (lambda model: None, lambda model: model.eval() and model.eval() and model.train()):
        _, data, model = build(ema_decay=0.99)
        train(model, list(data[0]), 6, lambda look=look, model=model: look(model))
        ends.append((weights(model), weights(model.eval())))
    assert same(ends[0][0], ends[1][0]) and same(ends[0][1], ends[1][1])


@pytest.mark.parametrize("evaluating", [True, False])
def test_a_state_carries_both(toy, evaluating):
    """Saved while either is in place and loaded into a new model, training goes on to the same weights."""
    _, data, model = build(ema_decay=0.99)
    batches = list(data[0])
    train(model, batches, 3)
    model.train(not evaluating)
    state = copy.deepcopy(model.state_dict())
    _, _, other = build(ema_decay=0.99)
    other.load_state_dict(state)
    for one in (model, other):
        torch.manual_seed(1)
        train(one, batches, 3)
    assert same(weights(model), weights(other)) and same(weights(model.eval()), weights(other.eval()))


def test_what_is_saved_is_a_plain_backbone(toy):
    """A checkpoint's own parameters are those that were validated: stock SASRec takes them as they are."""
    keys = {**SMALL, "ema_decay": 0.99, "metric_decimal_place": 12}
    found = run_recbole(model="AsarSASRec", dataset="toy", config_dict=keys)
    (file,) = (toy / "saved").glob("*.pth")
    state = checkpoint.read(file)["state_dict"]
    config, data, _ = build(**keys)
    plain = SASRec(config, data[0]._dataset)
    plain.load_state_dict({name: state[name] for name in plain.state_dict()})
    assert Trainer(config, plain).evaluate(data[2], load_best_model=False) == found["test_result"]
