"""Noise is where it should be and nowhere else, the same for everybody, and gone at ratio 0."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import build
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_asarrec import ConfigError, DataError
from recbole_asarrec.data.noise import add_noise, choose, draw_unseen, training_part

COLUMNS = ("user", "item", "time")
SEED = {"noise_seed": 3, "noise_scope": "train"}


def frame_of(histories):
    rows = [(u, i, t) for u, items in enumerate(histories, 1) for t, i in enumerate(items)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def noisy_histories(histories, n_items, ratio, kind, held_out=2, seed=3):
    wanted = SimpleNamespace(noise_ratio=ratio, noise_kind=kind, noise_scope="train", noise_seed=seed)
    frame, noise = add_noise(
        frame_of(histories).sample(frac=1, random_state=0), COLUMNS, n_items, held_out, wanted
    )
    return [list(frame["item"][frame["user"] == user]) for user in range(1, len(histories) + 1)], noise


@given(
    lengths=st.lists(st.integers(2, 30), min_size=1, max_size=8),
    ratio=st.sampled_from([0.1, 0.2, 0.5, 0.9]),
    kind=st.sampled_from(["replace", "insert"]),
    held_out=st.integers(1, 2),
    seed=st.integers(0, 50),
)
@settings(max_examples=60, deadline=None)
def test_against_what_the_words_say(lengths, ratio, kind, held_out, seed):
    """Replace ⌊ρm⌋ of the m training items by distinct unseen ones, or insert as many; the rest stays."""
    random = np.random.default_rng(seed)
    histories = [list(random.permutation(np.arange(1, 101))[:length]) for length in lengths]
    noisy, noise = noisy_histories(histories, 101, ratio, kind, held_out, seed)
    total = 0
    for clean, dirty in zip(histories, noisy):
        left_out = min(held_out, len(clean) - 2)
        trained = len(clean) - left_out
        added = [item for item in dirty if item not in clean]
        total += len(added)
        assert len(added) == int(ratio * trained + 1e-9) and len(set(added)) == len(added)
        assert dirty[len(dirty) - left_out :] == clean[trained:], "a held-out item was touched"
        if kind == "replace":
            assert len(dirty) == len(clean)
            assert all(new == old or new not in clean for new, old in zip(dirty, clean))
        else:
            assert [item for item in dirty if item in clean] == clean
    assert len(noise.pairs) == total
    users = np.repeat(np.arange(1, len(noisy) + 1), [len(one) for one in noisy])
    marks = noise.marks(users, np.concatenate(noisy))
    assert marks.sum() == total


def test_every_place_is_as_likely():
    """A chi-squared test: positions are chosen uniformly among the training items."""
    from scipy.stats import chisquare

    users = np.repeat(np.arange(1, 4001), 12)
    chosen = choose(users, training_part(users, 2), 0.2, np.random.default_rng(0))
    counts = np.bincount(chosen % 12, minlength=12)
    assert counts[10:].sum() == 0
    assert chisquare(counts[:10]).pvalue > 1e-3


def test_unseen_items_are_as_likely():
    from scipy.stats import chisquare

    users = np.repeat(np.arange(1, 5001), 2)
    seen = np.arange(1, 5001) * 21 + 7
    items, served = draw_unseen(users, seen, 21, np.random.default_rng(0))
    counts = np.bincount(items, minlength=21)
    assert served.all() and counts[0] == counts[7] == 0
    assert chisquare(np.delete(counts, [0, 7])).pvalue > 1e-3


def test_a_user_who_has_everything_gets_what_is_left():
    """No draw can succeed for ever; the noise stops instead of the program."""
    noisy, noise = noisy_histories([list(range(1, 10)), [1, 2, 3, 4, 5]], 11, 0.5, "replace")
    assert len(noise.pairs) == 1 + 1 and 10 in noisy[0]


def rows_of(model, **keys):
    _, data, _ = build(model, **keys)
    return [
        {name: rows[name][order] for name in ("user_id", "item_id", "item_id_list")}
        for rows in (loader._dataset.inter_feat for loader in data)
        for order in [torch.argsort(rows["user_id"], stable=True)]
    ], data[0]._dataset.noise


@pytest.mark.parametrize("scope", ["train", "train_and_history"])
@pytest.mark.parametrize("kind", ["replace", "insert"])
def test_stock_and_plugin_models_meet_the_same_noise(toy, scope, kind):
    """A comparison in which each method has its own noise compares nothing."""
    keys = {"noise_ratio": 0.3, "noise_kind": kind, "noise_scope": scope}
    ours, noise = rows_of("AsarSASRec", seed=1, **keys)
    stock, other = rows_of("SASRec", seed=2, train_neg_sample_args=None, **keys)
    clean, nothing = rows_of("AsarSASRec")
    assert nothing is None and noise.fingerprint == other.fingerprint and noise.describe()["kind"] == kind
    for mine, theirs in zip(ours, stock):
        for name, column in mine.items():
            assert torch.equal(column, theirs[name]), name
    for part in (1, 2):
        assert torch.equal(ours[part]["item_id"], clean[part]["item_id"]), "a target is noisy"
        same = torch.equal(ours[part]["item_id_list"], clean[part]["item_id_list"])
        assert same == (scope == "train")
    train = ours[0]
    marked = noise.marks(train["user_id"].numpy(), train["item_id"].numpy())
    assert 0.1 < marked.mean() < 0.3


def test_ratio_zero_is_no_noise(toy):
    with_keys, _ = rows_of("AsarSASRec", noise_ratio=0.0, noise_kind="insert", noise_seed=9)
    without, _ = rows_of("AsarSASRec")
    for one, other in zip(with_keys, without):
        for name in one:
            assert torch.equal(one[name], other[name])


def test_another_seed_is_another_noise(toy):
    _, one = rows_of("AsarSASRec", noise_ratio=0.2, noise_seed=1)
    _, other = rows_of("AsarSASRec", noise_ratio=0.2, noise_seed=2)
    assert one.fingerprint != other.fingerprint and len(one.pairs) == len(other.pairs)


def test_other_splits_are_refused(toy):
    with pytest.raises(ConfigError, match="noise_ratio needs a leave-one-out split"):
        build(noise_ratio=0.2, eval_args={"split": {"RS": [0.8, 0.1, 0.1]}, "order": "TO", "mode": "full"})


def test_users_with_a_repeated_item_are_left_out(toy):
    """The paper's filter; everybody else's interactions stay as they were."""
    file = toy / "dataset" / "toy" / "toy.inter"
    lines = file.read_text().splitlines()
    lines += [line.rsplit("\t", 1)[0] + "\t9e9" for line in lines[1:3]]  # of one user or two
    file.write_text("\n".join(lines) + "\n")
    items = {}
    for line in lines[1:]:
        user, item, *_ = line.split("\t")
        items.setdefault(user, []).append(item)
    repeating = {user for user, mine in items.items() if len(set(mine)) < len(mine)}
    assert 0 < len(repeating) < len(items)
    _, data, _ = build(drop_repeating_users=True)
    dataset = data[0]._dataset
    left = set(dataset.id2token(dataset.uid_field, dataset.inter_feat[dataset.uid_field].numpy()))
    assert left == set(items) - repeating
    _, data, _ = build()
    dataset = data[0]._dataset
    assert set(dataset.id2token(dataset.uid_field, dataset.inter_feat[dataset.uid_field].numpy())) == set(
        items
    )


def test_when_all_users_repeat_an_item_it_says_so(toy):
    lines = (toy / "dataset" / "toy" / "toy.inter").read_text().splitlines()
    again = [line.rsplit("\t", 1)[0] + f"\t{9e9 + number}" for number, line in enumerate(lines[1:])]
    (toy / "dataset" / "toy" / "toy.inter").write_text("\n".join([*lines, *again]) + "\n")
    with pytest.raises(DataError, match="set drop_repeating_users: False"):
        build(drop_repeating_users=True)
