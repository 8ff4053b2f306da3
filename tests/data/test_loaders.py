"""The fast path may not change what is learned: rows, batches, losses and gradients against RecBole's own."""

import copy

import numpy as np
import pytest
import torch
from helpers import LEARNS, SMALL, assert_same_gradients, build
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.quick_start import load_data_and_model, run_recbole

from benchmarks import generate
from recbole_asarrec.data import CONTRASTIVE_ROW, TARGETS
from recbole_asarrec.data.batches import BucketedBatches
from recbole_asarrec.data.dataset import leave_out
from recbole_asarrec.data.loaders import sequence_rows
from recbole_asarrec.data.rows import Rows

COLUMNS = {"load_col": {"inter": ["user_id", "item_id", "rating", "timestamp"]}}


def rich(folder, name="rich", users=60):
    """Ties in time, repeated items, users of 1 to 20 interactions in no order, an extra column."""
    rng = np.random.default_rng(3)
    lines = [
        f"u{user}\ti{rng.integers(25)}\t{rng.integers(1, 6)}\t{rng.integers(8)}"
        for user in range(users)
        for _ in range(rng.integers(1, 20))
    ]
    rng.shuffle(lines)
    target = folder / "dataset" / name / f"{name}.inter"
    target.parent.mkdir(parents=True)
    header = "user_id:token\titem_id:token\trating:float\ttimestamp:float"
    target.write_text("\n".join([header, *lines]) + "\n")


def both(dataset="rich", **keys):
    """The three parts as RecBole makes them and as the plugin does."""
    made = []
    for model, more in (("SASRec", {"train_neg_sample_args": None}), ("AsarSASRec", {})):
        config = Config(model, dataset, config_dict={**SMALL, **COLUMNS, **more, **keys})
        made.append(create_dataset(config).build())
    return made


HIDDEN = {"row_target", "row_first"}  # what exclude_history needs of RecBole's own rows
SPLITS = [
    {"LS": "valid_and_test"},
    {"LS": "valid_only"},
    {"LS": "test_only"},
    {"RS": [0.8, 0.1, 0.1]},
]


@pytest.mark.parametrize("longest", [5, 50])
@pytest.mark.parametrize("split", SPLITS, ids=str)
def test_rows_are_recboles_in_recboles_order(workplace, split, longest):
    rich(workplace)
    keys = {"MAX_ITEM_LIST_LENGTH": longest}
    keys["eval_args"] = {"split": split, "order": "TO", "group_by": "user", "mode": "full"}
    for stock, lean in zip(*both(**keys)):
        assert len(stock) == len(lean)
        if not len(stock):
            continue
        expected, found = stock[torch.arange(len(stock))], lean[torch.arange(len(lean))]
        for field in set(expected) - HIDDEN:
            assert torch.equal(expected[field], found[field]), field
        assert set(found.columns) - set(expected.columns) <= {CONTRASTIVE_ROW}


@pytest.mark.parametrize("value", [None, "rating"])
def test_what_recbole_code_reads_of_a_dataset_is_the_same(workplace, value):
    rich(workplace)
    for stock, lean in zip(*both()):
        assert (stock.inter_matrix("csr", value) != lean.inter_matrix("csr", value)).nnz == 0
        assert stock.item_counter == lean.item_counter and stock.user_counter == lean.user_counter
        assert stock.inter_num == lean.inter_num
        assert torch.equal(stock.inter_feat["item_id_list"], lean.inter_feat["item_id_list"])  # the fallback
        assert stock.num("item_id") == lean.num("item_id")
        torch.manual_seed(0)
        expected = stock.history_item_matrix()
        torch.manual_seed(0)
        assert all(torch.equal(a, b) for a, b in zip(expected, lean.history_item_matrix()))


def test_rows_behave_as_an_interaction(workplace):
    rich(workplace)
    stock, lean = (parts[0] for parts in both())
    rows, plain = lean.inter_feat, stock.inter_feat
    assert isinstance(rows, Rows) and "rating_list" in rows and "nothing" not in rows
    assert set(rows) - {CONTRASTIVE_ROW} == set(plain) - HIDDEN
    for made in (rows.to("cpu"), rows.cpu()):
        assert torch.equal(made["rating_list"], plain["rating_list"])
    assert np.array_equal(rows.numpy()["item_id_list"], plain.numpy()["item_id_list"])
    assert torch.equal(rows[:7].repeat(2)["item_id_list"], plain[:7].repeat(2)["item_id_list"])
    assert torch.equal(
        rows[[4, 2]].repeat_interleave(3)["item_id_list"], plain[[4, 2]].repeat_interleave(3)["item_id_list"]
    )
    copied = copy.deepcopy(rows)
    copied.sort(by="item_id")
    plain.sort(by="item_id")
    assert torch.equal(copied["item_id_list"], plain["item_id_list"])
    copied.drop("rating_list")
    assert "rating_list" not in copied and "rating_list" in rows


def test_a_saved_dataset_and_saved_loaders_come_back(workplace):
    """And only to the run they were made for: other noise is other data."""
    rich(workplace)
    keys = {
        **SMALL,
        **COLUMNS,
        "save_dataset": True,
        "save_dataloaders": True,
        "trust_cache": True,
        "epochs": 1,
    }

    def score(**more):
        return run_recbole(model="AsarSASRec", dataset="rich", config_dict={**keys, **more})[
            "best_valid_result"
        ]

    made, loaded = score(), score()
    assert made == loaded
    assert score(noise_ratio=0.5) == score(
        noise_ratio=0.5, save_dataloaders=False, checkpoint_dir="elsewhere"
    )


def test_leave_out_equals_a_naive_loop():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 9, 60)
    order, part = leave_out(groups, 2)
    naive: dict[int, list[int]] = {}
    for row, group in enumerate(groups):
        naive.setdefault(group, []).append(row)
    expected_order = [row for rows in naive.values() for row in rows]
    assert order.tolist() == expected_order
    for row, where in zip(order, part):
        rows = naive[groups[row]]
        back = len(rows) - rows.index(row)
        assert where == (back if back <= min(2, len(rows) - 1) else 0)


@pytest.mark.parametrize(("processes", "by_positions"), [(1, False), (2, False), (3, True)])
def test_every_row_comes_once_an_epoch_in_batches_of_like_length(processes, by_positions):
    lengths = np.random.default_rng(1).integers(1, 50, 1003)
    size = 64 * 25 if by_positions else 64
    ranks = [
        BucketedBatches(lengths, size, seed=5, by_positions=by_positions, rank=rank, processes=processes)
        for rank in range(processes)
    ]
    for _ in range(2):
        dealt = [list(one) for one in ranks]
        assert len({len(batches) for batches in dealt}) == 1 and len(dealt[0]) == len(ranks[0])
        assert all(len(batch) for batches in dealt for batch in batches), "a process would wait for ever"
        together = [np.concatenate(parts) for parts in zip(*dealt)]
        assert sorted(np.concatenate(together)) == list(range(1003))
        held = [lengths[batch].sum() if by_positions else len(batch) for batch in together]
        assert max(held) <= size + 49 * (by_positions + processes)
        spread = np.mean([np.ptp(lengths[batch]) for batch in together])
        assert spread < 6, "rows of a batch are not of like length"


def test_batches_follow_from_seed_and_epoch():
    """Resuming in the middle of a run needs the batches of any epoch without those before it."""
    lengths = np.random.default_rng(1).integers(1, 50, 300)

    def epoch(number, seed=5):
        batches = BucketedBatches(lengths, 32, seed)
        batches.set_epoch(number)
        return [batch.tolist() for batch in batches]

    running = BucketedBatches(lengths, 32, 5)
    assert [[b.tolist() for b in running] for _ in range(3)] == [epoch(0), epoch(1), epoch(2)]
    assert epoch(0) != epoch(1) and epoch(0) != epoch(0, seed=6)


def test_trimming_changes_neither_loss_nor_gradient(toy):
    """Right-padded SASRec: padding beyond the longest row of a batch must not matter."""
    _, data, model = build(
        hidden_dropout_prob=0.0, attn_dropout_prob=0.0, augmentation="none", recipe="plain"
    )
    batch = next(iter(data[0]))
    wide = copy.copy(batch)
    padding = 50 - batch[model.ITEM_SEQ].size(1)
    assert padding > 0
    wide.interaction = {**batch.interaction}
    wide[model.ITEM_SEQ] = torch.nn.functional.pad(batch[model.ITEM_SEQ], (0, padding))
    narrow, full = model.calculate_loss(batch), model.calculate_loss(wide)
    assert torch.allclose(narrow, full, atol=1e-6)
    assert_same_gradients((model, narrow), (model, full))


def test_windows_cover_every_target_once(workplace):
    rich(workplace)
    _, lean = both(MAX_ITEM_LIST_LENGTH=4)
    train = lean[0]
    rows = train[torch.arange(len(train))]
    expected = sorted(zip(rows["user_id"].tolist(), rows["item_id"].tolist()))
    made = sequence_rows(train)
    items, targets = made.padded("item_id_list"), made.padded("item_id_list", ahead=1)
    found = []
    for user, inputs, wanted, length in zip(made["user_id"], items, targets, made["item_length"]):
        found += [(user.item(), item) for item in wanted[:length].tolist()]
        assert inputs[1:length].tolist() == wanted[: length - 1].tolist(), "a target is not the next input"
        assert (inputs[length:] == 0).all() and (wanted[length:] == 0).all()
    assert sorted(found) == expected
    last = {user.item(): wanted[n - 1].item() for user, wanted, n, mark in zip(
        made["user_id"], targets, made["item_length"], made[CONTRASTIVE_ROW]) if mark}  # fmt: skip
    mine = rows[CONTRASTIVE_ROW]
    assert last == dict(zip(rows["user_id"][mine].tolist(), rows["item_id"][mine].tolist()))


@pytest.mark.parametrize("loss_type", ["CE", "BPR"])
def test_all_positions_is_the_mean_over_prefixes(toy, loss_type):
    """Without dropout a causal backbone sees the same prefix either way: one pass, the same loss."""
    keys = {"hidden_dropout_prob": 0.0, "attn_dropout_prob": 0.0, "augmentation": "none", "recipe": "plain"}
    keys |= {"train_batch_size": 100_000, "loss_type": loss_type}
    _, prefixes, model = build(**keys)
    _, whole, other = build(**keys, training="all_positions")
    other.load_state_dict(model.state_dict())
    (rows,), (sequences,) = list(prefixes[0]), list(whole[0])
    assert int((sequences[TARGETS] > 0).sum()) == len(rows)
    if loss_type == "BPR":  # the negatives are random: compare the positives' scores instead
        real = sequences[TARGETS] > 0
        items, length = sequences[model.ITEM_SEQ], sequences[model.ITEM_SEQ_LEN]
        encoded = other.encode(items, length, every_position=True)[real]
        mine = (encoded * other.item_embedding(sequences[TARGETS][real])).sum(-1)
        theirs = model.predict(rows)
        assert torch.allclose(mine.sort().values, theirs.sort().values, atol=1e-4)
        assert other.calculate_loss(sequences).isfinite()
        return
    one, two = model.calculate_loss(rows), other.calculate_loss(sequences)
    assert one.item() == pytest.approx(two.item(), rel=1e-5)
    assert_same_gradients((model, one), (other, two), atol=1e-5)


@pytest.mark.learning
@pytest.mark.parametrize("keys", [{"batching": "random"}, {"training": "all_positions"}], ids=str)
def test_every_way_of_training_learns_saves_and_loads(steady, keys):
    """The default way is the ``trained`` model's; these two know the walk as well, from random items on.

    Worst of 18: 0.99.
    """
    keys = {**LEARNS, "item_init": "random", "topk": [1], "valid_metric": "NDCG@1", **keys}
    result = run_recbole(model="AsarSASRec", dataset="toy", config_dict=keys)
    assert result["test_result"]["hit@1"] > 0.6
    (file,) = (steady / "saved").glob("*.pth")
    *_, test = load_data_and_model(str(file))
    assert next(iter(test))[0]["item_id_list"].size(1) <= 50 and not torch.is_anomaly_enabled()


def test_validation_does_not_depend_on_the_batches(toy):
    """EvalLoader sorts rows by length; the metrics are means and may not notice."""
    from recbole.utils import get_trainer

    config, data, model = build(metric_decimal_place=10)
    stock, stock_data, same = build(metric_decimal_place=10, batching="random")
    same.load_state_dict(model.state_dict())
    results = [
        get_trainer(c["MODEL_TYPE"], c["model"])(c, m).evaluate(d[1], load_best_model=False)
        for c, d, m in ((config, data, model), (stock, stock_data, same))
    ]
    assert type(data[1]).__name__ == "EvalLoader" and type(stock_data[1]).__name__ == "FullSortEvalDataLoader"
    assert results[0] == results[1]


def test_sampled_evaluation_still_works(toy):
    keys = {
        "eval_args": {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": "user", "mode": "uni5"}
    }
    result = run_recbole(model="AsarSASRec", dataset="toy", config_dict={**SMALL, **keys, "epochs": 1})
    assert "ndcg@10" in result["test_result"]


def test_dynamic_negatives_and_workers_still_work(toy):
    negatives = {"distribution": "uniform", "sample_num": 1, "dynamic": True, "candidate_num": 2}
    keys = {**SMALL, "loss_type": "BPR", "train_neg_sample_args": negatives, "epochs": 1}
    assert run_recbole(model="AsarSASRec", dataset="toy", config_dict=keys)["test_result"]
    keys = {**SMALL, "worker": 1, "epochs": 1}
    assert run_recbole(model="AsarSASRec", dataset="toy", config_dict=keys)["test_result"]


def test_building_is_fast_because_nothing_loops_over_interactions(workplace):
    """Not a timing: RecBole's loop would take a Python step for each of these 200,000 interactions."""
    import sys

    generate.write(workplace / "dataset", "toy", interactions=200_000)
    config = Config("AsarSASRec", "toy", config_dict=dict(SMALL))
    dataset = create_dataset(config)
    assert dataset.inter_num == 200_000
    lines = 0

    def count(frame, event, argument):
        nonlocal lines
        lines += event == "line" and "recbole" in frame.f_code.co_filename
        return count

    sys.settrace(count)
    try:
        data_preparation(config, dataset)
    finally:
        sys.settrace(None)
    assert lines < 10_000, f"{lines} lines of Python for {dataset.inter_num} rows"
