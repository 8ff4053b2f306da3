"""A bound on choosing views for each group of users needs right groups and right arithmetic."""

import numpy as np
import pytest
from helpers import SMALL
from recbole.data import create_dataset

from benchmarks import groups
from benchmarks.__main__ import main
from recbole_asarrec.errors import UserError
from recbole_asarrec.experiments import records
from recbole_asarrec.experiments.run import configure, run


def test_methods_that_are_best_for_one_group_each_are_won_by_choosing():
    group = np.repeat([0, 1], 50)
    scores = {"a": np.tile(1.0 - group, (3, 1)), "b": np.tile(0.8 * group, (3, 1))}
    single, chosen = groups.won_by_choosing(scores, group)
    assert single == pytest.approx(0.5) and chosen == pytest.approx(0.9)


def test_what_holds_for_one_seed_alone_is_worth_nothing():
    """Methods alike but for each seed's luck: chosen on the others, the held-out seed gives the mean."""
    draw = np.random.default_rng(1)
    scores = {name: draw.random((3, 40_000)) for name in "abcd"}
    single, chosen = groups.won_by_choosing(scores, draw.integers(8, size=40_000))
    assert chosen == pytest.approx(single, rel=0.01)


def test_quantiles_are_of_about_one_size_and_equal_values_stay_together():
    values = np.arange(100)
    assert np.bincount(groups.quantiles(values)).tolist() == [25, 25, 25, 25]
    assert len(np.unique(groups.quantiles(np.ones(10)))) == 1


@pytest.fixture
def recorded(toy, tmp_path):
    """Two fixed augmentations under two seeds."""
    for augmentation in ("crop", "mask"):
        for seed in (1, 2):
            spec = records.Spec(
                "AsarSASRec", "toy", seed, {**SMALL, "augmentation": augmentation, "epochs": 1}
            )
            records.append(run(spec, tmp_path / f"{augmentation}{seed}"), tmp_path / "results")
    return tmp_path / "results"


def test_groups_of_users_are_in_the_order_of_the_recorded_ranks(recorded):
    record = records.read(recorded)[0]
    ways = groups.groupings(record, "dataset")
    dataset = create_dataset(configure(record.spec, state="error"))
    counts = dataset.inter_feat["user_id"].value_counts()
    lengths = {str(dataset.id2token("user_id", user)): number for user, number in counts.items()}
    naive = [lengths[token] for token in sorted(lengths)]
    assert (groups.quantiles(np.array(naive)) == ways["length of the history"]).all()
    assert {len(group) for group in ways.values()} == {len(record.ranks["all_items"])}


def test_command_measures_every_setting_and_refuses_what_it_cannot_compare(recorded, tmp_path, capsys):
    assert main(["groups", str(recorded), "-o", str(tmp_path / "out.json")]) == 0
    assert "length of the history" in capsys.readouterr().out and (tmp_path / "out.json").is_file()
    (tmp_path / "empty").mkdir()
    assert main(["groups", str(tmp_path / "empty")]) == 2


def test_data_of_other_users_is_refused(recorded):
    record = records.read(recorded)[0]
    record.spec.keys["user_inter_num_interval"] = "[9,inf)"
    with pytest.raises(UserError, match="other users"):
        groups.groupings(record, "dataset")
