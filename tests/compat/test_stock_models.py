"""What works with stock RecBole works with the plugin imported, and on today's packages too.

Each case was found by running RecBole's own tests (``benchmarks/recbole_tests.py``) and is small here.
"""

import inspect
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers import STOCK, build, write_atomic
from recbole.config import Config
from recbole.quick_start import load_data_and_model, run_recbole
from scipy.sparse import dok_matrix

from recbole_asarrec.compat import packages
from recbole_asarrec.compat.patching import originals
from recbole_asarrec.errors import ConfigError, DataError

QUICK = {
    "epochs": 1,
    "show_progress": False,
    "state": "WARNING",
    "embedding_size": 8,
    "train_batch_size": 512,
}

AUC = {"metrics": ["AUC"], "valid_metric": "AUC"}


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_numpy_has_every_name_that_recboles_config_gives_it():
    """23 context-aware and knowledge-aware models failed on np.long, one of three names left out."""
    source = inspect.getsource(originals["recbole.config.configurator:Config.compatibility_settings"])
    names = re.findall(r"np\.(\w+) = np\.", source)
    assert len(names) == 8 and [name for name in names if not hasattr(np, name)] == []


def test_numpys_own_names_are_not_hidden():
    """RecBole sets np.long to np.int_ and np.bool to np.bool_ even where numpy has its own."""
    assert np.long is np.dtype("long").type and np.dtype(np.bool) == np.dtype(bool)


def test_a_sparse_matrix_can_be_filled_as_recbole_does():
    """scipy dropped dok_matrix._update, by which LightGCN, NGCF, KGIN and five others fill their graphs."""
    matrix = dok_matrix((3, 4), dtype=np.float32)
    matrix._update({(0, 1): 1.0, (2, 3): 5.0})
    assert matrix.nnz == 2
    assert matrix.tocsr().toarray().tolist() == [[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 5]]


@pytest.mark.parametrize(
    ("model", "keys"),
    [
        ("LightGCN", {}),  # dok_matrix._update
        ("FM", {"threshold": {"timestamp": 3}, "eval_args": {"mode": "labeled"}, **AUC}),  # np.long
        ("EASE", {}),  # no gradients: a trainer without an optimiser
        ("BERT4Rec", {"train_neg_sample_args": None}),  # a dataset of its own with masked rows
    ],
)
def test_a_model_of_each_kind_trains(toy, model, keys):
    keys = {**QUICK, "load_col": STOCK["load_col"], "hidden_size": 8, "inner_size": 8, **keys}
    assert run_recbole(model=model, dataset="toy", config_dict=keys)["test_result"]


def test_a_pretrained_model_is_trained_further(toy):
    """RecBole pickles its Config into the file, which torch ≥ 2.6 does not open: S3Rec and RaCT stopped."""
    keys = {**QUICK, "pretrain_epochs": 1, "save_step": 1}
    run_recbole(model="RaCT", dataset="toy", config_dict={**keys, "train_stage": "actor_pretrain"})
    _, _, model = build(
        "RaCT", small=keys, train_stage="critic_pretrain", pre_model_path="saved/RaCT-toy-1.pth"
    )
    pretrained = torch.load("saved/RaCT-toy-1.pth", weights_only=True)["state_dict"]
    assert all(torch.equal(weight, pretrained[name]) for name, weight in model.state_dict().items())


@pytest.mark.parametrize(
    ("hyperopt", "wanted"), [("0.2.5", np.random.RandomState), ("0.3.0", np.random.Generator)]
)
def test_hyperopt_is_given_the_generator_it_asks_for(monkeypatch, hyperopt, wanted):
    """RecBole's exhaustive search makes a RandomState, which hyperopt from 0.2.6 on cannot draw from."""
    monkeypatch.setitem(sys.modules, "hyperopt", SimpleNamespace(__version__=hyperopt))
    assert isinstance(packages.hyperopt_generator(seed=1), wanted)


@pytest.mark.parametrize("model", ["LightGBM", "XGBoost"])
def test_a_model_whose_library_is_absent_names_the_library(toy, monkeypatch, model):
    """It was "There is no model 'LightGBM'": RecBole names the files of these two otherwise."""
    monkeypatch.setitem(sys.modules, "lightgbm", None)  # both are imported together
    for name in [name for name in sys.modules if name.startswith("recbole.model.exlib")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ModuleNotFoundError, match="lightgbm"):
        Config(model=model, dataset="toy")


def a_longer_line(folder):
    """The dataset ``toy`` as RecBole's own test data is: its last line has a value too many."""
    file = write_atomic(folder / "dataset", "toy")
    file.write_text(file.read_text().rstrip("\n") + "\t1")


def test_a_value_too_many_is_read_past_for_a_stock_model(workplace, caplog):
    """RecBole's own test.inter ends so: 144 of its tests were refused."""
    a_longer_line(workplace)
    _, data, _ = build("SASRec", **STOCK, state="WARNING")
    (said,) = [text for text in warnings(caplog) if "toy.inter" in text]
    assert re.fullmatch(r"Line \d+ of '.*toy\.inter' has 4 values where .* names 3 columns\.", said)
    rows = sum(len(part._dataset) for part in data)
    (workplace / "dataset" / "toy" / "toy.inter").unlink()
    (workplace / "dataset" / "toy").rmdir()
    write_atomic(workplace / "dataset", "toy")
    assert rows == sum(len(part._dataset) for part in build("SASRec", **STOCK)[1])


def test_a_value_too_many_is_refused_for_ours(workplace):
    a_longer_line(workplace)
    with pytest.raises(DataError, match="has 4 values where the first line names 3"):
        build("AsarSASRec")


def test_fewer_items_than_topk_is_a_warning_for_a_stock_model(workplace, caplog):
    """RecBole's tests build datasets of eight items with topk 10 and never rank them."""
    write_atomic(workplace / "dataset", "toy", items=8)
    _, data, _ = build("SASRec", **STOCK, state="WARNING")
    assert len(data[0]._dataset) > 0
    assert [text for text in warnings(caplog) if "topk" in text] == [
        "'toy' has 8 items, fewer than topk (10); lower the key topk."
    ]
    with pytest.raises(DataError, match="fewer than topk"):
        build("AsarSASRec")


ACCEPTED = [
    ({"valid_metric": "NDCG@7"}, "not measured"),  # RecBole looks it up after the first epoch
    ({"metrics": ["Recall"], "topk": [20]}, "not measured"),  # valid_metric is MRR@10 by default
    ({"learner": "foo"}, "'learner' must be"),  # RecBole takes Adam
    ({"learning_rate": 0}, "'learning_rate' must be"),
    ({"eval_args": {"group_by": "None"}}, "group_by"),
    ({"n_heads": 3, "hidden_size": 64}, "multiple of n_heads"),  # BPR has no heads
]


@pytest.mark.parametrize(("keys", "says"), ACCEPTED)
def test_keys_that_recbole_accepts_are_warned_about_once(toy, caplog, keys, says):
    """Stock RecBole makes a Config of each; some run, some fail later, and that is RecBole's to say."""
    config = Config(model="BPR", dataset="toy", config_dict=dict(keys))
    assert all(config[key] == value for key, value in keys.items() if key != "eval_args")
    (said,) = warnings(caplog)
    assert says in said and "\n" not in said
    with pytest.raises(ConfigError, match=says):
        Config(model="AsarSASRec", dataset="toy", config_dict=dict(keys))


def test_a_stock_model_with_such_keys_trains_and_is_loaded(toy):
    """RecBole's tests train with learner: foo; a checkpoint must not refuse what training accepted."""
    keys = {**QUICK, "learner": "foo", "eval_args": {"group_by": "None"}}
    run_recbole(model="BPR", dataset="toy", config_dict=keys)
    (file,) = (toy / "saved").glob("BPR-*.pth")
    config, *_ = load_data_and_model(str(file))
    assert config["learner"] == "foo"


@pytest.mark.parametrize("model", ["BPR", "AsarSASRec"])
def test_keys_of_this_package_are_strict_for_every_model(toy, model):
    with pytest.raises(ConfigError, match="'noise_ratio' must be"):
        Config(model=model, dataset="toy", config_dict={"noise_ratio": 2})
