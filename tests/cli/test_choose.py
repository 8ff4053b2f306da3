"""What ``choose`` recommends follows from the trials by a rule that can be computed by hand."""

from pathlib import Path
from statistics import stdev

import pytest
from helpers import SMALL

from recbole_asarrec.__main__ import main
from recbole_asarrec.cli.choose import Candidate, choose, standard_error, table, verdict
from recbole_asarrec.experiments.records import read

KEYS = [f"--{key}={SMALL[key]}" for key in ("hidden_size", "inner_size", "n_layers", "n_heads")]
TINY = ["--dataset", "toy", *KEYS, "--epochs=1", "--seeds", "2"]


def test_the_cheapest_within_one_standard_error_is_chosen():
    best = Candidate("asar", (0.10, 0.12, 0.11), 2.0)
    near = Candidate("crop", (0.104, 0.108, 0.109), 1.5)
    far = Candidate("cl4srec", (0.08, 0.09, 0.085), 1.0)
    every = [best, near, far]
    expected = (sum(stdev(one.scores) ** 2 for one in every) / 3 / 3) ** 0.5
    assert standard_error(every) == pytest.approx(expected)
    assert expected == pytest.approx(0.00383, abs=1e-5)
    assert best.mean - near.mean < expected < best.mean - far.mean
    assert choose(every) is near
    assert choose([best, far]) is best


def test_no_views_are_cheaper_than_any_whatever_the_clock_says():
    none, crop = Candidate("none", (0.10, 0.12), 1.1), Candidate("crop", (0.105, 0.12), 1.0)
    assert choose([crop, none]) is none
    assert verdict([crop, none], none).startswith("Views do not pay here: none is within one standard error")


def test_one_seed_has_no_standard_error_and_says_so():
    none, asar = Candidate("none", (0.1,), 1.0), Candidate("asar", (0.101,), 2.0)
    assert standard_error([none, asar]) == 0
    assert choose([none, asar]) is asar
    said = verdict([none, asar], asar)
    assert said.startswith("Take asar: it has the best") and "One seed says little" in said


def test_the_table_is_best_first_and_a_loss_counts_downwards():
    rows = table([Candidate("none", (-0.5, -0.7), 1.0), Candidate("asar", (-0.4, -0.4), 2.0)], "LogLoss")
    head, first, second = rows.splitlines()
    assert "validation LogLoss" in head
    assert first.split() == ["asar", "0.4000", "±", "0.0000", "best", "2.0", "2.00×"]
    assert second.split() == ["none", "0.6000", "±", "0.1414", "-50.0", "%", "1.0", "1.00×"]


def test_trials_read_no_test_data_and_are_not_repeated(toy, capsys):
    command = ["choose", *TINY, "--augmentations", "none", "asar"]
    assert main(command) == 0
    first = capsys.readouterr().out
    records = read(Path("choice"))
    assert sorted((one.spec.augmentation, one.spec.seed) for one in records) == [
        ("asar", 2020),
        ("asar", 2021),
        ("none", 2020),
        ("none", 2021),
    ]
    assert not any(one.test or one.ranks for one in records)
    assert not list(Path("choice").rglob("*.pth"))
    trained = first.splitlines()[-1]
    assert trained.startswith("Train: ") and "--hidden_size=16" in trained and "--augmentation=" in trained
    assert main(command) == 0
    assert capsys.readouterr().out == first
    assert len(read(Path("choice"))) == 4


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--augmentations", "none"], "--augmentations needs two or more"),
        (["--augmentations", "none", "corp"], "did you mean 'crop'"),
        (["--model", "SASRec"], "SASRec has no views to choose; take AsarSASRec"),
        (["--seeds", "0"], "--seeds must be at least 1"),
        (["--seed=3"], "choose sets the key 'seed' itself; use --seeds"),
        (["--augmentation=crop"], "choose sets the key 'augmentation' itself; use --augmentations"),
        (["--epochz=3"], "did you mean 'epochs'"),
        (["--dataset", "toys"], "no dataset 'toys'"),
    ],
)
def test_mistakes_are_one_sentence(toy, capsys, words, sentence):
    assert main(["choose", "--dataset", "toy", *words]) == 2
    said = capsys.readouterr().err
    assert sentence in said and "Traceback" not in said
    assert not Path("choice").exists()
