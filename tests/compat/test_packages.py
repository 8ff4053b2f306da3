"""RecBole's data path must mean the same on the packages it was made for and on today's.

Every expected value here was computed by hand, so that both lanes are held to it, not to each other.
"""

import torch
from helpers import SMALL
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.quick_start import load_data_and_model, run_recbole


def prepared(**keys):
    config = Config(
        model="AsarSASRec",
        dataset="mine",
        config_dict={**SMALL, "topk": [3], "valid_metric": "NDCG@3", **keys},
    )
    dataset = create_dataset(config)
    return dataset, data_preparation(config, dataset)


def write(folder, **files):
    (folder / "dataset" / "mine").mkdir(parents=True)
    for suffix, lines in files.items():
        (folder / "dataset" / "mine" / f"mine.{suffix}").write_text("\n".join(lines) + "\n")


INTER = ["user_id:token\titem_id:token\trating:float\ttimestamp:float"]
ROWS = [f"u{u}\ti{(u + t) % 7}\t{t % 5}\t{t}" for u in range(6) for t in range(6)]


def test_missing_features_are_padding(workplace):
    """Row 0 of item features, the padding item, is always missing: it read as −9223372036854775808."""
    items = ["item_id:token\tbrand:token\tprice:float\ttags:token_seq"]
    items += ["i0\tacme\t1\tred blue", "i1\t\t3\t", "i2\tzeta\t\tblue", "i3\tacme\t2\tred"]
    write(workplace, inter=INTER + ROWS, item=items)
    dataset, _ = prepared(
        load_col={"inter": ["user_id", "item_id", "timestamp"], "item": "*"},
        filter_inter_by_user_or_item=False,
    )
    feat = dataset.item_feat
    i0, i1, i2 = dataset.token2id("item_id", ["i0", "i1", "i2"])
    assert feat["brand"][0] == 0 and feat["brand"][i1] == 0 and feat["brand"].min() >= 0
    assert dataset.id2token("brand", feat["brand"][i2]) == "zeta"
    assert feat["price"][i2] == 2.0  # the mean of 1, 3, 2
    assert (feat["tags"][i1] == 0).all()
    assert dataset.id2token("tags", feat["tags"][i0]).tolist() == ["red", "blue"]


def test_labels_by_threshold_and_normalised_columns(workplace):
    write(workplace, inter=INTER + ROWS)
    dataset, _ = prepared(
        load_col={"inter": ["user_id", "item_id", "rating", "timestamp"]}, normalize_field=["rating"]
    )
    assert dataset.inter_feat["rating"].min() == 0 and dataset.inter_feat["rating"].max() == 1


def test_presplit_files_have_the_length_of_their_lists(workplace):
    head = "user_id:token\titem_id_list:token_seq\titem_id:token"
    rows = ["a\tx y z\tx", "b\ty\tz", "c\tz x\ty"]
    write(workplace, **{f"{part}.inter": [head, *rows] for part in ("train", "valid", "test")})
    dataset, _ = prepared(
        benchmark_filename=["train", "valid", "test"],
        load_col={"inter": ["user_id", "item_id_list", "item_id"]},
        alias_of_item_id=["item_id_list"],
    )
    assert dataset.inter_feat["item_length"][:3].tolist() == [3, 1, 2]


def test_ml_100k_with_its_item_classes(workplace):
    """RecBole's own sample data has a token_seq column; SASRecF reads it by default."""
    keys = {
        **SMALL,
        "epochs": 1,
        "train_neg_sample_args": None,
        "user_inter_num_interval": "[4,8]",
        "val_interval": {"timestamp": "[0,876000000]"},
        "selected_features": ["class"],
        "pooling_mode": "sum",
        "metric_decimal_place": 10,
    }
    result = run_recbole(model="SASRecF", dataset="ml-100k", config_dict=keys)
    (file,) = (workplace / "saved").glob("SASRecF-*.pth")
    config, model, _, _, _, test_data = load_data_and_model(str(file))
    from recbole.trainer import Trainer

    again = Trainer(config, model).evaluate(test_data, load_best_model=False)
    assert again == result["test_result"] and torch.load(file, weights_only=True)["epoch"] == 0


def test_results_are_plain_floats(toy):
    """numpy 2 prints np.float64(0.0742) into logs, and JSON refuses nothing less."""
    import json

    result = run_recbole(model="AsarSASRec", dataset="toy", config_dict={**SMALL, "epochs": 1})
    assert all(type(value) is float for value in result["test_result"].values())
    json.dumps(result["test_result"])
