"""EMA: the average is what is validated, saved and used; the trained weights are what is trained."""

import copy

import pytest
import torch
from helpers import SMALL, build
from recbole.model.sequential_recommender.sasrec import SASRec
from recbole.quick_start import run_recbole
from recbole.trainer import Trainer
from recbole.utils import get_trainer
from torch import nn

from recbole_asarrec.recipe.ema import EMA
from recbole_asarrec.training import checkpoint


def weights(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def same(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def trainer_of(**keys):
    config, data, model = build(**keys)
    return get_trainer(config["MODEL_TYPE"], config["model"])(config, model), data


def test_it_is_the_average_after_every_step():
    """Against the recurrence, with the weights written down after each step."""
    model = nn.Linear(3, 2)
    ema = EMA(model.named_parameters(), 0.9)
    expected, optimizer = weights(model), torch.optim.SGD(model.parameters(), 0.1)
    optimizer.register_step_post_hook(ema.update)
    for taken in range(1, 31):
        optimizer.zero_grad()
        model(torch.randn(4, 3)).square().sum().backward()
        optimizer.step()
        decay = min(0.9, taken / (taken + 10))
        for name, p in model.named_parameters():
            expected[name] = decay * expected[name] + (1 - decay) * p.detach()
    trained = weights(model)
    with ema.applied():
        for name, found in weights(model).items():
            assert torch.allclose(found, expected[name], atol=1e-6), name
        with ema.applied():  # saving inside validation
            assert not same(weights(model), trained)
        assert not same(weights(model), trained)
    assert same(weights(model), trained)


def test_a_step_that_is_skipped_does_not_count():
    """Half precision skips a step whose gradients overflow; only real steps are averaged."""
    model = nn.Linear(1, 1)
    ema = EMA(model.named_parameters(), 0.9)
    model(torch.ones(1, 1)).sum().backward()
    assert ema.steps == 0


def test_the_trainer_averages_steps_and_validates_the_average(toy):
    trainer, data = trainer_of(ema_decay=0.9, epochs=1)
    seen = []
    plain = Trainer._valid_epoch

    def watch(self, *args, **kwargs):
        seen.append(weights(self.model))
        return plain(self, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_valid_epoch", watch)
        trainer.fit(data[0], data[1], saved=False, verbose=False)
    assert trainer.ema.steps == len(data[0])
    trained = weights(trainer.model)
    state = trainer.ema.state_dict()
    assert same(state["average"], {name: seen[0][name] for name in state["average"]})
    assert not any(name.startswith("augmenter.") for name in state["average"])
    assert not same(trained, seen[0])


def test_evaluating_changes_nothing(toy):
    """Validating between epochs leaves training and the average as they were."""
    ends = []
    for looks in (0, 2):
        trainer, data = trainer_of(ema_decay=0.99, epochs=1)
        torch.manual_seed(0)
        trainer.fit(data[0], saved=False, verbose=False)
        for _ in range(looks):
            trainer.evaluate(data[1], load_best_model=False)
        ends.append((weights(trainer.model), trainer.ema.state_dict()["average"]))
    assert same(ends[0][0], ends[1][0]) and same(ends[0][1], ends[1][1])


@pytest.mark.parametrize("applied", [True, False])
def test_a_state_carries_both(applied):
    """Saved while either is in place and loaded into a new model, both are there."""
    torch.manual_seed(0)
    model, other = nn.Linear(3, 2), nn.Linear(3, 2)
    ema, copied = EMA(model.named_parameters(), 0.5), EMA(other.named_parameters(), 0.5)
    with torch.no_grad():
        model.weight.add_(1)
    ema.update()
    trained = weights(model)
    if applied:
        with ema.applied():
            state = copy.deepcopy(ema.state_dict())
    else:
        state = copy.deepcopy(ema.state_dict())
    copied.load_state_dict(state)
    assert same(weights(other), trained) and copied.steps == 1
    with ema.applied(), copied.applied():
        assert same(weights(model), weights(other)) and not same(weights(other), trained)


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
