"""What people watch: each loss term by name, and the augmenter, in the log and in TensorBoard."""

import re

import pytest
import torch
from helpers import SMALL, build
from recbole.quick_start import run_recbole
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn

from recbole_asarrec.augment import View, ViewPair
from recbole_asarrec.models.training_step import Contrast, TrainingStep
from recbole_asarrec.training.monitor import EDIT_KINDS, AugmenterMonitor


def scalars(folder):
    (run,) = (folder / "log_tensorboard").iterdir()
    events = EventAccumulator(str(run)).Reload()
    return {tag: [event.value for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_log_and_tensorboard_show_terms_and_augmenter(toy, capfd, caplog):
    with caplog.at_level("INFO"):
        run_recbole(model="AsarSASRec", dataset="toy", config_dict={**SMALL, "show_progress": True})
    shown = scalars(toy)
    for name in ("recommendation", "contrastive", "augmenter"):
        assert len(shown[f"Loss/Train/{name}"]) == 2
    for number in (1, 2):
        kinds = {kind: shown[f"Augmenter/view{number}/{kind}"][0] for kind in EDIT_KINDS}
        assert kinds["kept"] + kinds["moved"] + kinds["dropped"] == pytest.approx(1, abs=1e-5)
        assert 0 < shown[f"Augmenter/view{number}/ndcg"][0] <= 1
    assert 0 <= shown["Augmenter/identical_views"][0] < 1 and shown["Augmenter/infonce"][0] > 0
    plain = re.compile(r"\x1b\[[0-9;]*m")
    logged, bar = plain.sub("", caplog.text), plain.sub("", capfd.readouterr().err)
    assert re.search(r"recommendation: [\d.]+, contrastive: [\d.]+, augmenter: [\d.]+", logged)
    assert re.search(r"augmenter: view 1 kept [\d.]+% dropped", logged)
    assert re.search(r"rec=[\d.]+, con=[\d.]+, aug=[\d.]+", bar), "the progress bar shows no loss parts"


def test_weight_zero_logs_as_the_backbone_does(toy):
    run_recbole(
        model="AsarSASRec", dataset="toy", config_dict={**SMALL, "contrastive_weight": 0.0, "recipe": "plain"}
    )
    assert "Loss/Train" in scalars(toy) and not [tag for tag in scalars(toy) if tag.startswith("Augmenter")]


def test_the_monitor_means_over_users_and_starts_anew(toy):
    _, data, model = build()
    monitor = AugmenterMonitor(model.loss_names)
    for batch in data[0]:
        monitor.update(model.training_step(batch), model)
    report = monitor.report()
    assert report["view1/kept"] <= 1 and report["ndcg_floor"] < 1
    assert monitor.report() == {}


def test_wandb_gets_the_same_names(toy, monkeypatch):
    sent = []

    class Fake:
        def __init__(self, config):
            pass

        def log_metrics(self, metrics, head="train", commit=True):
            sent.append(metrics)

        def log_eval_metrics(self, metrics, head="eval"):
            pass

    monkeypatch.setattr("recbole.trainer.trainer.WandbLogger", Fake)
    run_recbole(model="AsarSASRec", dataset="toy", config_dict={**SMALL, "epochs": 1})
    names = {name for metrics in sent for name in metrics}
    assert {"Loss/Train/contrastive", "Augmenter/view2/moved", "Augmenter/infonce"} <= names


def test_infonce_weighs_batches_by_their_users():
    monitor = AugmenterMonitor(["recommendation", "contrastive"])
    for users, contrast in ((3, 2.0), (1, 6.0)):
        items = torch.ones(users, 2, dtype=torch.long)
        view = View(items, torch.full((users,), 2), torch.zeros_like(items), torch.zeros_like(items))
        length = torch.full((users,), 2)
        contrast = Contrast(ViewPair((view, view)), length, torch.tensor(contrast), users, None)
        monitor.update(TrainingStep((torch.tensor(0.0),) * 2, None, contrast), nn.Module())
    assert monitor.report()["infonce"] == pytest.approx(3.0)
