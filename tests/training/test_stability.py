"""The game must not end in NaN without a word: each term is watched, and a collapse is noticed once."""

import logging

import pytest
import torch
from helpers import SMALL, build
from recbole.quick_start import run_recbole
from robustness.extremes import EXTREMES, Extreme, play
from robustness.playground import write_ring

from recbole_asarrec.augment import View, ViewPair
from recbole_asarrec.errors import DivergedError
from recbole_asarrec.models.training_step import Contrast, TrainingStep
from recbole_asarrec.training.monitor import AugmenterMonitor, check_weights

TERMS = ("recommendation", "contrastive")


@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_settings_stay_finite(name, workplace):
    """The campaign plays thousands of steps; a few are no trouble to any setting."""
    write_ring(workplace, "ring", users=40)
    write_ring(workplace, "alike", users=40, alike=True)
    assert play(EXTREMES[name], 12, workplace) == "finite"


def test_what_cannot_stay_finite_stops_in_words(workplace):
    write_ring(workplace, "ring", users=40)
    end = play(Extreme({"learning_rate": 1e30}), 12, workplace)
    assert end.startswith("stopped: The recommendation loss is nan") and "lower learning_rate" in end


@pytest.mark.parametrize(
    ("term", "remedy"),
    [("recommendation", "learning_rate"), ("contrastive", "temperature"), ("augmenter", "diversity_weight")],
)
def test_the_term_the_batch_and_the_remedy_are_named(toy, term, remedy):
    _, data, model = build()
    monitor = AugmenterMonitor(model.loss_names)
    monitor.update(model.training_step(next(iter(data[0]))), model)
    losses = [torch.tensor(float("nan") if name == term else 1.0) for name in model.loss_names]
    with pytest.raises(DivergedError, match=rf"The {term} loss is nan in batch 2 of the epoch.*{remedy}"):
        monitor.update(TrainingStep(tuple(losses)), model)


def test_broken_weights_are_named_before_the_losses_they_break(toy):
    _, data, model = build()
    with torch.no_grad():
        model.item_embedding.weight[3] = torch.inf
    with pytest.raises(DivergedError, match=r"'item_embedding.weight' is no longer finite before batch 1"):
        AugmenterMonitor(model.loss_names).update(model.training_step(next(iter(data[0]))), model)


@pytest.mark.parametrize("model", ["AsarSASRec", "SASRec"])
def test_a_run_that_breaks_keeps_what_was_saved(toy, model, monkeypatch):
    """The last step of an epoch is seen by no loss: weights are looked at before they are used.

    With an EMA it is the average that is validated, so the trained weights are looked at a little later.
    """
    stock = {"train_neg_sample_args": None, "load_col": {"inter": ["user_id", "item_id", "timestamp"]}}
    import recbole.trainer.trainer as trainer

    epochs = []
    original = trainer.Trainer._train_epoch

    def breaks(self, *args, **kwargs):
        losses = original(self, *args, **kwargs)
        epochs.append(losses)
        if len(epochs) == 2:
            with torch.no_grad():
                self.model.item_embedding.weight[1] = torch.nan
        return losses

    monkeypatch.setattr(trainer.Trainer, "_train_epoch", breaks)
    keys = {**SMALL, **(stock if model == "SASRec" else {}), "epochs": 5}
    with pytest.raises(
        DivergedError, match="finite (after the epoch|at the start of epoch 2); what was saved before is kept"
    ):
        run_recbole(model=model, dataset="toy", config_dict=keys)
    (file,) = (toy / "saved").glob(f"{model}-*.pth")
    state = torch.load(file, weights_only=True)["state_dict"]
    assert all(weight.isfinite().all() for weight in state.values())


def test_stock_models_stop_in_words_too(toy):
    keys = {"train_neg_sample_args": None, "load_col": {"inter": ["user_id", "item_id", "timestamp"]}}
    config, _, model = build("SASRec", **keys)
    from recbole.utils import get_trainer

    trainer = get_trainer(config["MODEL_TYPE"], "SASRec")(config, model)
    with pytest.raises(DivergedError, match="loss is nan.*lower learning_rate"):
        trainer._check_nan(torch.tensor(float("nan")))
    check_weights(model, "now")


def views(items):
    items = torch.tensor(items)
    nowhere = torch.full_like(items, -1)
    return View(items, (items > 0).sum(1), column=nowhere, source=nowhere)


def warnings_of(monitor, pair, infonce, epochs, caplog):
    caplog.clear()
    users = len(pair[0].items)
    contrast = Contrast(ViewPair(pair), pair[0].length, torch.tensor(infonce), users, None)
    with caplog.at_level(logging.WARNING):
        for _ in range(epochs):
            monitor.update(TrainingStep((torch.tensor(infonce),) * 2, None, contrast), torch.nn.Module())
            monitor.report()
    return [record.message for record in caplog.records]


def test_identical_views_are_noticed_once(caplog):
    pair = (views([[1, 2], [3, 4]]),) * 2
    (said,) = warnings_of(AugmenterMonitor(TERMS), pair, 0.1, 4, caplog)
    assert "Both views of nearly every user are the same" in said
    assert warnings_of(AugmenterMonitor(TERMS, identical_by_design=True), pair, 0.1, 4, caplog) == []


def test_infonce_at_its_ceiling_is_noticed_after_a_while(caplog):
    pair = (views([[1, 2], [3, 4]]), views([[2, 1], [4, 3]]))
    assert warnings_of(AugmenterMonitor(TERMS), pair, 0.6931, 2, caplog) == []
    (said,) = warnings_of(AugmenterMonitor(TERMS), pair, 0.6931, 6, caplog)
    assert "InfoNCE stays at its ceiling" in said
    assert warnings_of(AugmenterMonitor(TERMS), pair, 0.5, 6, caplog) == []


def test_empty_views_are_noticed(caplog):
    (said,) = warnings_of(
        AugmenterMonitor(TERMS), (views([[0, 0], [3, 4]]), views([[2, 1], [4, 3]])), 0.1, 2, caplog
    )
    assert "Some views are empty" in said
