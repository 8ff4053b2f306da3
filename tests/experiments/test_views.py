"""What a run says of its views: against plain Python, and without leaving a trace on the model."""

import json

import numpy as np
import pytest
import torch
from helpers import build

from recbole_asarrec.augment import build_view
from recbole_asarrec.experiments.edits import index_map_of, sort_edits
from recbole_asarrec.experiments.views import LARGEST, _count_noise, _noise_among, describe_views
from recbole_asarrec.training.monitor import EDIT_KINDS, count_edits


def random_plan(
    seed: int, batch: int = 40, width: int = 9, new: int = 3
) -> tuple[torch.Tensor, torch.Tensor]:
    """Plans that move, drop and take new items, over histories of any length: ``[B, n]`` and ``[B]``."""
    rng = np.random.default_rng(seed)
    source = np.full((batch, width), -1)
    length = rng.integers(1, width + 1, batch)
    for row, n in enumerate(length):
        items = rng.permutation([*range(n), *range(width, width + new), *[-1] * new])[:n]
        keep = rng.random(n) < 0.6
        plan = np.where(keep, np.arange(n), -1)
        free = [item for item in items if item < 0 or item not in plan]
        plan[~keep] = (free + [-1] * n)[: (~keep).sum()]
        source[row, :n] = plan
    source[:, 0] = np.where((source < 0).all(1), 0, source[:, 0])
    return torch.from_numpy(source), torch.from_numpy(length)


@pytest.mark.parametrize("seed", range(3))
def test_a_view_is_sorted_as_the_log_counts_it(seed):
    """Where nothing is inserted the shares are those that training reports."""
    source, length = random_plan(seed)
    expanded = torch.arange(1, 13).expand(len(source), 12)
    view = build_view(expanded, source)
    kinds, dropped = sort_edits(view, length, 9)
    counted = count_edits(source, length)
    plain = counted["inserted"] == 0
    assert plain.any() and not plain.all()
    for code, kind in enumerate(EDIT_KINDS):
        if kind in ("masked", "cropped"):  # of what is not in the view
            continue
        found = dropped.sum(1) if kind == "dropped" else (kinds == code).sum(1)
        assert (found == counted[kind])[plain].all(), kind
    assert (index_map_of(view, length, 9) == source).all()
    kept, moved = (kinds == 0).sum(1), (kinds == 2).sum(1)
    assert (kept + moved + dropped.sum(1) == length).all()


def test_an_insertion_moves_nobody():
    """Insert pushes all that follow by one place; the newest n places are the plan."""
    source = torch.tensor([[0, 1, 4, 2, 3]])  # a new item before the third of four
    view = build_view(torch.arange(1, 6)[None], source)
    kinds, dropped = sort_edits(view, torch.tensor([4]), 4)
    assert [EDIT_KINDS[code] for code in kinds[0]] == ["kept", "kept", "inserted", "kept", "kept"]
    assert not dropped.any()
    assert index_map_of(view, torch.tensor([4]), 4).tolist() == [[1, 4, 2, 3]]


def naive_ndcg(source: list, length: int) -> float:
    """Gain = age from the oldest, discount by the distance from the newest place; new items have no gain."""
    scores = [
        ((item + 1) if 0 <= item < length else 0) / np.log2(length - place + 1)
        for place, item in enumerate(source)
    ]
    return sum(scores) / sum((place + 1) / np.log2(length - place + 1) for place in range(length))


@pytest.mark.parametrize(
    "augmentation", ["asar", "random_matrix", "mask", "insert", "substitute", ["insert", "mask"], "dropout"]
)
def test_views_are_told_in_plain_small_json(toy, augmentation):
    _, data, model = build(augmentation=augmentation)
    dataset = data[0]._dataset
    views = describe_views(model, dataset)
    text = json.dumps(views)
    assert len(text) <= LARGEST and json.loads(text) == views
    assert len(views["cases"]) == 12
    matrix = np.array(views["matrix"]["views"])  # [2, n + new, n]
    assert matrix.shape[2] == views["matrix"]["length"] and (matrix.sum(1) <= 1.01).all()
    assert (matrix.sum(2) <= 1.01).all()
    if augmentation == "dropout":
        assert views["ndcg"] == [1, 1] and views["rates"][0]["kept"] == 1
    for case in views["cases"]:
        for view in case["views"]:
            old = [index for index in view["source"] if index < case["length"]]
            assert sorted(old + view["dropped"]) == list(range(case["length"]))
            new = [kind for kind, i in zip(view["kinds"], view["source"]) if i >= case["length"]]
            assert set(new) <= {"inserted", "substituted"}
            assert len(view["source"]) == len(view["kinds"]) and max(view["source"]) < len(case["items"])


def test_ndcg_of_a_case_is_the_formulas(toy):
    """For substitute the view's places are the history's, so plain Python can score the case itself."""
    _, data, model = build(augmentation="substitute")
    for case in describe_views(model, data[0]._dataset)["cases"]:
        for view in case["views"]:
            assert view["ndcg"] == pytest.approx(naive_ndcg(view["source"], case["length"]), abs=1e-4)
            assert view["kinds"].count("substituted") == len(view["dropped"]) == 1


def test_describing_leaves_no_trace_and_repeats_itself(toy):
    _, data, model = build()
    model.train()
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    before = torch.get_rng_state()
    first = describe_views(model, data[0]._dataset)
    assert torch.equal(before, torch.get_rng_state()) and model.training
    torch.rand(3)
    assert describe_views(model, data[0]._dataset) == first
    assert describe_views(model, data[0]._dataset, seed=1)["cases"] != first["cases"]
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())


def test_noise_is_marked_and_its_share_among_the_dropped_is_told(toy):
    """A case's noise is what its user never did; mask drops it no more often than anything else."""
    did = {tuple(line.split("\t")[:2]) for line in (toy / "dataset/toy/toy.inter").read_text().splitlines()}
    _, data, model = build(augmentation="mask", operation_ratio=0.3, noise_ratio=0.3)
    views = describe_views(model, data[0]._dataset)
    for case in views["cases"]:
        history = case["items"][: case["length"]]
        assert case["noise"] == [n for n, item in enumerate(history) if (case["user"], item) not in did]
    assert any(case["noise"] for case in views["cases"])
    told = views["noise"]
    assert 0.2 < told["share"] < 0.3
    assert told["lift"] == pytest.approx(told["share_of_dropped"] / told["share_by_chance"], abs=1e-3)
    assert 0.6 < told["lift"] < 1.5


def test_chance_is_counted_within_each_history():
    """Two of two clean items gone beside one of ten with two noisy ones: at random that is a fifteenth."""
    length = torch.tensor([2, 10])
    bad = torch.zeros(2, 10, dtype=torch.bool)
    bad[1, :2] = True
    dropped = torch.zeros(2, 10).double()
    dropped[0, :2] = 1
    dropped[1, 0] = 1
    told = _noise_among(*_count_noise(bad, dropped, length))
    assert told == {
        "share": pytest.approx(2 / 12, abs=1e-4),
        "share_by_chance": pytest.approx(0.2 / 3, abs=1e-4),
        "share_of_dropped": pytest.approx(1 / 3, abs=1e-4),
        "lift": pytest.approx(5),
    }
    evenly = torch.where(torch.arange(10) < length[:, None], 0.3, 0.0).double()
    assert _noise_among(*_count_noise(bad, evenly, length))["lift"] == pytest.approx(1)


def test_what_denoising_drops_is_told(toy):
    """Where embeddings are the ring, a walk over it lies together, and noise lies anywhere on it."""
    found = {}
    for mode in ("score", "random"):
        _, data, model = build(denoise_mode=mode, noise_ratio=0.3)
        tokens = data[0]._dataset.id2token("item_id", range(1, model.n_items))
        angle = torch.tensor([int(token[1:]) for token in tokens]) * (2 * torch.pi / 30)
        with torch.no_grad():
            model.item_embedding.weight.zero_()
            model.item_embedding.weight[1:, :2] = torch.stack([angle.cos(), angle.sin()], 1)
        found[mode] = describe_views(model, data[0]._dataset)["denoising"]
    assert found["score"]["noise"]["lift"] > 1.5
    assert 0.7 < found["random"]["noise"]["lift"] < 1.3
    assert found["score"]["dropped"] == pytest.approx(found["random"]["dropped"], rel=0.1)
    _, data, model = build(denoise_strength=0)
    assert "denoising" not in describe_views(model, data[0]._dataset)


def test_chosen_users_and_titles(toy):
    """Titles come from the .item file though load_col does not name it."""
    lines = [f"i{n}\tThe {n}th item" for n in range(30)]
    (toy / "dataset" / "toy" / "toy.item").write_text(
        "item_id:token\ttitle:token_seq\n" + "\n".join(lines) + "\n"
    )
    _, data, model = build(load_col={"inter": ["user_id", "item_id", "timestamp"]})
    views = describe_views(model, data[0]._dataset, users=["u7", "nobody", "u3"])
    assert [case["user"] for case in views["cases"]] == ["u7", "u3"]
    tokens = {token for case in views["cases"] for token in (*case["items"], case["next"])}
    assert views["titles"] == {token: f"The {token[1:]}th item" for token in tokens}


@pytest.mark.parametrize(
    "keys",
    [
        {"augmentation": "none"},
        {"augmentation": "s3rec"},
        {"contrastive_weight": 0},
        {"model": "SASRec", "train_neg_sample_args": None},
    ],
)
def test_without_views_there_is_nothing_to_tell(toy, keys):
    _, data, model = build(**keys)
    assert describe_views(model, data[0]._dataset) is None
