"""What ``auto`` stands for: values that follow from the training data, in one place."""

import pytest
from helpers import SMALL, build, write_atomic

from recbole_asarrec.config import resolve
from recbole_asarrec.config.resolve import RULES, TrainingData

BEAUTY = TrainingData(targets=131_413, sequences=22_363, mean_history=5.0, repeats=0.0)
ML_100K = TrainingData(targets=96_171, sequences=2_377, mean_history=60.0, repeats=0.0)


@pytest.fixture
def config(toy):
    return build()[0]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (BEAUTY, {"train_batch_size": 256, "learning_rate": 0.001, "stopping_step": 10, "ema_decay": 0.999}),
        (
            ML_100K,
            {"train_batch_size": 2048, "learning_rate": 0.004, "stopping_step": 20, "ema_decay": 0.989},
        ),
    ],
    ids=["Beauty", "ml-100k"],
)
def test_a_large_and_a_small_dataset(config, data, expected):
    """Forty sequences a batch on both; fewer steps an epoch are larger, and have more patience."""
    for key, value in expected.items():
        config[key] = RULES[key](config, data)
        assert config[key] == value, key


def test_no_value_is_left_open_once_the_data_is_known(toy):
    config, data, model = build()
    assert not [key for key in RULES if key in config and config[key] == "auto"]
    assert model.settings.ema_decay == config["ema_decay"] and data[0].step == config["train_batch_size"]


AUGMENTED = ({}, {"augmentation": "none"}, {"augmentation": "cl4srec"}, {"contrastive_weight": 0.0})


@pytest.mark.parametrize("recipe", ["robust", "plain", "paper"])
@pytest.mark.parametrize("keys", AUGMENTED, ids=str)
def test_a_recipe_is_the_same_for_every_augmentation(toy, keys, recipe):
    config = build(**keys, recipe=recipe)[0]
    found = {key: config[key] for key in ("gce_q", "history_penalty", "denoise_strength", "item_init")}
    on = {"gce_q": 0.1, "history_penalty": 3.0, "denoise_strength": 1.0, "item_init": "cooccurrence"}
    off = {"gce_q": 0.0, "history_penalty": 1.0, "denoise_strength": 0.0, "item_init": "random"}
    assert found == (on if recipe == "robust" else off)
    assert (config["ema_decay"] > 0) == (recipe == "robust")


def test_a_users_own_value_stays(toy):
    config = build(ema_decay=0.5, learning_rate=0.02, history_penalty=2.0, stopping_step=3)[0]
    assert [config[key] for key in ("ema_decay", "learning_rate", "history_penalty", "stopping_step")] == [
        0.5,
        0.02,
        2.0,
        3,
    ]


def test_items_of_the_history_are_not_pushed_away_where_they_come_again(toy):
    write_atomic(toy / "dataset", "again", items=4)
    config, data, _ = build(dataset="again", topk=[3], valid_metric="NDCG@3")
    rows = data[0]._dataset.inter_feat
    pairs = list(zip(rows["user_id"].tolist(), rows["item_id"].tolist(), strict=True))
    found = resolve.describe(config, data[0]._dataset)
    assert found.repeats == pytest.approx(1 - len(set(pairs)) / len(pairs)) and found.repeats > 0.1
    assert config["history_penalty"] == 1.0


def test_nor_where_histories_are_long(config):
    """Whoever has fifty items would have everything like them pushed away: seen on ml-100k."""
    assert (
        RULES["history_penalty"](config, BEAUTY) == 3.0 and RULES["history_penalty"](config, ML_100K) == 1.0
    )


def test_sequences_are_windows_of_all_positions_and_rows_of_prefixes(toy):
    config, data, _ = build(training="all_positions", MAX_ITEM_LIST_LENGTH=5)
    found = resolve.describe(config, data[0]._dataset)
    assert found.sequences == data[0].sample_size and found.targets == len(data[0]._dataset.inter_feat)
    config, data, _ = build()
    assert resolve.describe(config, data[0]._dataset).sequences == found.targets


def test_a_loss_without_softmax_is_left_alone(toy):
    config = build(loss_type="BPR")[0]
    assert config["history_penalty"] == 1.0 and config["gce_q"] == 0.0
    config = build("AsarNARM", small={key: SMALL[key] for key in ("epochs", "state")})[0]
    assert config["history_penalty"] == 1.0 and config["gce_q"] == 0.0


def test_dense_data_has_less_dropout(config):
    """As SASRec's authors have it: 0.5 on Amazon, 0.2 on MovieLens."""
    assert RULES["hidden_dropout_prob"](config, BEAUTY) == 0.5
    assert RULES["attn_dropout_prob"](config, ML_100K) == 0.2


def test_the_resolved_dropout_is_the_one_that_is_trained_with(toy):
    _, _, model = build(hidden_dropout_prob="auto", attn_dropout_prob="auto")
    assert model.dropout.p == 0.5
    assert model.trm_encoder.layer[0].multi_head_attention.attn_dropout.p == 0.5
