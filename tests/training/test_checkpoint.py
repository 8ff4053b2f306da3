"""Checkpoints come from strangers: they are data, they load anywhere, and they say what does not fit."""

import os
import pickle

import numpy as np
import pytest
import torch
from helpers import SMALL, build, write_atomic
from recbole.quick_start import load_data_and_model, run_recbole
from recbole.utils.case_study import full_sort_topk
from scipy import sparse

from recbole_asarrec.data import count_cooccurrences
from recbole_asarrec.errors import CheckpointError
from recbole_asarrec.training import checkpoint


def saved(folder, model="AsarSASRec", **keys):
    extra = (
        {}
        if model.startswith("Asar")
        else {
            "train_neg_sample_args": None,
            "load_col": {"inter": ["user_id", "item_id", "timestamp"]},
        }
    )
    result = run_recbole(model=model, dataset="toy", config_dict={**SMALL, **extra, **keys})
    (file,) = (folder / "saved").glob(f"{model}-*.pth")
    return file, result


@pytest.mark.parametrize("model", ["AsarSASRec", "SASRec"])
def test_torch_reads_it_safely_without_the_plugin(toy, model):
    file, _ = saved(toy, model)
    state = torch.load(file, weights_only=True)
    assert state["config"]["model"] == model and state["config"]["MODEL_TYPE"] == "SEQUENTIAL"
    assert not list((toy / "saved").glob("*.part"))


@pytest.mark.parametrize("model", ["AsarSASRec", "SASRec"])
def test_recboles_load_and_case_study_give_the_saved_result(toy, model):
    file, result = saved(toy, model)
    config, loaded, dataset, _, _, test_data = load_data_and_model(str(file))
    users = dataset.token2id("user_id", ["u1", "u7"])
    scores, items = full_sort_topk(users, loaded, test_data, k=5)
    assert items.shape == (2, 5) and scores.isfinite().all()
    from recbole.utils import get_trainer

    trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, loaded)
    again = trainer.evaluate(test_data, load_best_model=False)
    assert {k: again[k] for k in again if k in result["test_result"]} == result["test_result"]


def test_loading_computes_no_start(toy, monkeypatch):
    """What a checkpoint overwrites took a minute at 20 million rows; new models start as before."""
    file, _ = saved(toy)
    counted = []
    monkeypatch.setattr(
        "recbole_asarrec.recipe.item_init.count_cooccurrences",
        lambda data: counted.append(data) or count_cooccurrences(data),
    )
    load_data_and_model(str(file))
    assert not counted
    build()
    assert len(counted) == 1


def test_resume_goes_on_from_the_epoch(toy):
    file, _ = saved(toy)
    config, data, model = build(epochs=3)
    from recbole.utils import get_trainer

    trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, model)
    trainer.resume_checkpoint(file)
    assert trainer.start_epoch >= 1 and trainer.best_valid_score > 0
    trainer.fit(data[0], data[1])


class Hostile:
    def __reduce__(self):
        return os.mkdir, ("pwned",)


def test_a_checkpoint_with_code_is_refused_and_runs_nothing(toy):
    torch.save({"config": {"model": "AsarSASRec"}, "state_dict": Hostile()}, "bad.pth")
    with pytest.raises(CheckpointError, match="trust_checkpoint: True"):
        load_data_and_model("bad.pth")
    config, data, model = build()
    from recbole.utils import get_trainer

    trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, model)
    for load in (trainer.resume_checkpoint, lambda f: trainer.evaluate(data[2], model_file=f)):
        with pytest.raises(CheckpointError, match="run code when opened"):
            load("bad.pth")
    assert not os.path.exists("pwned")


def test_recboles_own_format_loads_once_trusted(toy):
    """Users have old checkpoints, with a pickled Config inside."""
    config, _, model = build(
        "SASRec", train_neg_sample_args=None, load_col={"inter": ["user_id", "item_id", "timestamp"]}
    )
    state = {"config": config, "state_dict": model.state_dict(), "other_parameter": {}}
    torch.save(state, "old.pth", pickle_protocol=4)
    with pytest.raises(CheckpointError, match="trust_checkpoint"):
        load_data_and_model("old.pth")
    assert (
        load_data_and_model("old.pth", trust_checkpoint=True)[1].state_dict().keys()
        == model.state_dict().keys()
    )


def test_what_does_not_fit_is_named(toy):
    file, _ = saved(toy)
    write_atomic(toy / "dataset", "other", items=20)
    from recbole.utils import get_trainer

    def evaluate(model="AsarSASRec", dataset="toy", **keys):
        config, data, made = build(model, dataset, **keys)
        get_trainer(config["MODEL_TYPE"], config["model"])(config, made).evaluate(data[2], model_file=file)

    stock = {"train_neg_sample_args": None, "load_col": {"inter": ["user_id", "item_id", "timestamp"]}}
    with pytest.raises(CheckpointError, match="is of AsarSASRec, not of SASRec"):
        evaluate("SASRec", **stock)
    with pytest.raises(CheckpointError, match=r"another item set: 'item_embedding.weight' is \(31, 16\)"):
        evaluate(dataset="other")
    with pytest.raises(CheckpointError, match="has no|another configuration"):
        evaluate(n_layers=2)


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"PK\x03\x04 cut", pickle.dumps({"a": 1})])
def test_files_that_are_no_checkpoint(tmp_path, content):
    file = tmp_path / "x.pth"
    file.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"x\.pth"):
        checkpoint.read(file)


def test_a_cut_checkpoint_a_folder_and_nothing(tmp_path):
    whole = tmp_path / "whole.pth"
    checkpoint.write({"config": {"model": "X"}, "state_dict": {"w": torch.zeros(1000)}}, whole)
    cut = tmp_path / "cut.pth"
    cut.write_bytes(whole.read_bytes()[:-200])
    with pytest.raises(CheckpointError, match="not a whole checkpoint"):
        checkpoint.read(cut)
    with pytest.raises(CheckpointError, match="is a folder"):
        checkpoint.read(tmp_path)
    with pytest.raises(CheckpointError, match="does not exist"):
        checkpoint.read(tmp_path / "none.pth")
    torch.save({"weights": 1}, tmp_path / "foreign.pth")
    with pytest.raises(CheckpointError, match="no config and no state_dict"):
        checkpoint.read(tmp_path / "foreign.pth")


def test_arrays_of_stock_models_survive_the_round_trip(tmp_path):
    """EASE, ItemKNN and others keep NumPy and SciPy arrays in other_parameter."""
    original = {"dense": np.arange(6.0).reshape(2, 3), "thin": sparse.csr_matrix(np.eye(3)), "n": np.int64(4)}
    checkpoint.write({"config": {}, "state_dict": {}, "other_parameter": original}, tmp_path / "x.pth")
    back = checkpoint.from_plain(checkpoint.read(tmp_path / "x.pth")["other_parameter"])
    assert np.array_equal(back["dense"], original["dense"]) and back["n"] == 4
    assert back["thin"].format == "csr" and (back["thin"] != original["thin"]).nnz == 0
