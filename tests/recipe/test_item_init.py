"""Where item embeddings start: near what they are had together with."""

import numpy as np
import pytest
import torch
from helpers import build
from scipy import sparse

from recbole_asarrec.data import cooccurrence_vectors, count_cooccurrences
from recbole_asarrec.data.cooccurrence import _PAIRS
from recbole_asarrec.recipe.item_init import cooccurrence_init_


def naive(sequences, items, window):
    """Every pair of every sequence, one by one."""
    counted = np.zeros((items, items))
    for sequence in sequences:
        for late, two in enumerate(sequence):
            for early, one in enumerate(sequence[:late]):
                if late - early <= window and one != two:
                    counted[one, two] += 1 / (late - early)
                    counted[two, one] += 1 / (late - early)
    return counted


def training_sequences(folder, dataset):
    """What users did before their last two interactions, read from the file."""
    users = {}
    for line in (folder / "dataset/toy/toy.inter").read_text().splitlines()[1:]:
        user, item, _ = line.split("\t")
        users.setdefault(user, []).append(dataset.token2id("item_id", item))
    return [items[:-2] for items in users.values()]


@pytest.mark.parametrize("window", [1, 3, 10])
def test_pairs_against_loops(toy, window):
    """Each pair counts once, by its distance; validation and test items are not looked at."""
    _, data, model = build()
    dataset = data[0]._dataset
    found = count_cooccurrences(dataset, window).toarray()
    assert np.allclose(found, naive(training_sequences(toy, dataset), model.n_items, window), atol=1e-5)
    assert found.any()


def test_rows_that_hold_their_lists_count_the_same(toy):
    """RecBole's own rows (benchmark_filename, scripts of before) are tables and not pointers."""
    _, data, _ = build()
    dataset = data[0]._dataset
    pointers = count_cooccurrences(dataset).toarray()
    dataset.inter_feat = dataset.inter_feat.materialize()
    assert np.array_equal(count_cooccurrences(dataset).toarray(), pointers)


def test_a_large_data_set_narrows_the_window(toy, monkeypatch):
    """Pairs are held in memory, so there is a bound on them."""
    _, data, _ = build()
    dataset = data[0]._dataset
    near = count_cooccurrences(dataset, 1).toarray()
    monkeypatch.setattr("recbole_asarrec.data.cooccurrence._PAIRS", len(dataset.inter_feat))
    assert np.array_equal(count_cooccurrences(dataset, 10).toarray(), near)
    assert _PAIRS >= 10 * 1_000_000  # a million interactions keep the whole window


def two_shops(items=20, seed=0):
    """Counts of two groups of items that are never had together; the last item is had with none."""
    rng = np.random.default_rng(seed)
    counted = np.zeros((2 * items + 2, 2 * items + 2))
    for group in (slice(1, 1 + items), slice(1 + items, 1 + 2 * items)):
        block = rng.poisson(2, (items, items)).astype(float)
        counted[group, group] = np.triu(block, 1) + np.triu(block, 1).T
    return sparse.csr_matrix(counted)


def test_vectors_against_a_dense_decomposition():
    """All angles as NumPy's singular vectors give them."""
    counted = two_shops()
    had = np.asarray(counted.sum(1)).ravel()
    scale = 1 / np.sqrt(had + 1)
    left, strength, _ = np.linalg.svd(scale[:, None] * counted.toarray() * scale)
    expected = left[:, :8] * np.sqrt(strength[:8])
    expected = expected / np.maximum(np.linalg.norm(expected, axis=1, keepdims=True), 1e-9)
    found = cooccurrence_vectors(counted, 8)
    told = had > 0
    assert np.allclose((found @ found.T)[told][:, told], (expected @ expected.T)[told][:, told], atol=0.02)
    assert np.allclose(np.linalg.norm(found[told], axis=1), 1, atol=1e-5) and not found[~told].any()


def test_what_is_had_together_lies_together():
    """The purpose: items lie near their own group and at right angles to the other."""
    vectors = cooccurrence_vectors(two_shops(), 4)
    near = vectors @ vectors.T
    assert near[1:21, 1:21].mean() > 0.3 and abs(near[1:21, 21:41]).max() < 1e-3


@pytest.mark.parametrize("size", [1, 5, 64])
def test_a_catalogue_smaller_than_its_vectors(size):
    """Two items and padding have at most three directions; nothing is not finite."""
    counted = sparse.csr_matrix(np.array([[0, 0, 0], [0, 0, 2.0], [0, 2.0, 0]]))
    vectors = cooccurrence_vectors(counted, size)
    assert vectors.shape == (3, size) and np.isfinite(vectors).all()
    assert not cooccurrence_vectors(sparse.csr_matrix((3, 3)), size).any()


def test_only_items_that_are_told_of_move(toy):
    """Padding and items without company keep the backbone's start; the others spread as wide."""
    _, data, plain = build(item_init="random")
    dataset = data[0]._dataset
    alone = int(dataset.inter_feat["item_id"][0])
    real = count_cooccurrences(dataset).tolil()
    real[alone], real[:, alone] = 0, 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("recbole_asarrec.recipe.item_init.count_cooccurrences", lambda _: real.tocsr())
        before = plain.item_embedding.weight.detach().clone()
        cooccurrence_init_(plain.item_embedding, dataset)
    after = plain.item_embedding.weight.detach()
    kept = (before == after).all(1).nonzero().flatten().tolist()
    assert kept == sorted({0, alone})
    moved = torch.ones(len(after), dtype=torch.bool)
    moved[kept] = False
    wanted = before[1:].std() * after.size(1) ** 0.5
    assert torch.allclose(after[moved].norm(dim=1), wanted.expand(int(moved.sum())), rtol=1e-4)


@pytest.mark.parametrize("model", ["AsarSASRec", "AsarGRU4Rec", "AsarFMLPRec"])
def test_nothing_else_of_the_backbone_starts_elsewhere(toy, model):
    """The backbone's random stream stays its own: all other weights and the state of the generator agree."""
    built = []
    for start in ("random", "cooccurrence"):
        _, _, one = build(model, small={"show_progress": False, "state": "ERROR"}, item_init=start)
        built.append((dict(one.named_parameters()), torch.random.get_rng_state()))
    (plain, state), (together, other_state) = built
    assert torch.equal(state, other_state)
    differs = {name for name in plain if not torch.equal(plain[name], together[name])}
    assert differs == {"item_embedding.weight"}


@pytest.mark.parametrize(
    "keys, moved",
    [
        ({}, True),
        ({"augmentation": "random_matrix"}, True),
        ({"augmentation": "none"}, True),
        ({"augmentation": "crop", "recipe": "plain"}, False),
        ({"recipe": "paper"}, False),
        ({"recipe": "plain", "item_init": "cooccurrence"}, True),
    ],
)
def test_who_starts_so_by_default(toy, keys, moved):
    """The recipe decides, whatever the augmentation."""
    _, _, model = build(**keys)
    _, _, plain = build(**{**keys, "item_init": "random"})
    assert torch.equal(model.item_embedding.weight, plain.item_embedding.weight) != moved


def test_the_start_is_the_same_each_time(toy):
    """Seeded runs repeat to the bit; another seed turns the start."""
    starts = [build(seed=seed)[2].item_embedding.weight.detach() for seed in (1, 1, 2)]
    assert torch.equal(starts[0], starts[1]) and not torch.equal(starts[0], starts[2])
