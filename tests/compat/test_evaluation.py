"""Ranking with and without the items of the history, against the definition written as a loop."""

from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import SMALL, build
from recbole.utils import get_trainer

from recbole_asarrec import ConfigError

SHORT = {"MAX_ITEM_LIST_LENGTH": 4, "topk": [3], "metrics": ["Hit", "NDCG"], "valid_metric": "NDCG@3"}


def histories():
    lines = Path("dataset/toy/toy.inter").read_text().splitlines()[1:]
    found = {}
    for user, item, _ in (line.split("\t") for line in lines):
        found.setdefault(user, []).append(item)
    return found


def naive_hits(model, data, without_history, drop):
    """HR@3 of the ``drop``-th item from the end of every user, one user at a time."""
    dataset = data._dataset
    hits = []
    for user, items in histories().items():
        if len(items) < 4:
            continue
        ids = dataset.token2id("item_id", items)
        before, target = ids[: len(ids) - drop], ids[len(ids) - drop]
        row = torch.nonzero(dataset.inter_feat["user_id"] == dataset.token2id("user_id", user))[0]
        with torch.no_grad():
            scores = model.full_sort_predict(dataset[row])[0]
        scores[0] = -np.inf
        if without_history:
            scores[[item for item in before if item != target]] = -np.inf
        hits.append(int((scores > scores[target]).sum() < 3))
    return np.mean(hits)


@pytest.mark.parametrize("model", ["AsarSASRec", "SASRec"])
@pytest.mark.parametrize("without_history", [True, False])
def test_both_protocols(toy, model, without_history):
    """Histories longer than L count whole: what the model no longer sees, the user still has."""
    keys = {**SHORT, "exclude_history": without_history, "train_neg_sample_args": None}
    config, data, network = build(model, small={**SMALL, "metric_decimal_place": 10}, **keys)
    trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, network)
    trainer.eval_collector.data_collect(data[0])
    network.eval()
    for loader, drop in ((data[1], 2), (data[2], 1)):
        result = trainer.evaluate(loader, load_best_model=False)
        assert result["hit@3"] == pytest.approx(naive_hits(network, loader, without_history, drop), abs=1e-9)


def test_ready_rows_do_not_say_what_came_before(toy):
    with pytest.raises(ConfigError, match="exclude_history cannot be used with benchmark_filename"):
        build(exclude_history=True, benchmark_filename=["a", "b", "c"], training="prefix")
