"""``adversary`` tells whether a gradient leads up; nothing but the augmenter may move."""

import json

import pytest
import torch
from helpers import SMALL
from recbole.quick_start import run_recbole
from tqdm import tqdm

from benchmarks.__main__ import main
from benchmarks.adversary import LEARNED, RANDOM, load, study

STRAIGHT_THROUGH = ("straight-through, down", "straight-through, up")


@pytest.fixture
def saved(trained):
    (file,) = (trained / "saved").glob("*.pth")
    return str(file)


@pytest.mark.learning
def test_up_is_harder_than_down_and_the_recommender_stands_still(trained, saved, monkeypatch):
    """Without dropout straight-through must tell up from down, or the study measures nothing.

    Worst of 18: 0.64 below random views and 0.51 above them.
    """
    monkeypatch.chdir(trained)
    model, train = load(saved, None)
    weights = torch.load(saved, weights_only=True)["state_dict"]
    measured = study(model, train, 60, 4, 1, tqdm(disable=True), STRAIGHT_THROUGH)
    rows = {(row["dropout"], row["views"]): row for row in measured}
    assert len(rows) == 6
    down, random, up = (
        rows[False, views]["infonce"] for views in (STRAIGHT_THROUGH[0], RANDOM, STRAIGHT_THROUGH[1])
    )
    assert down < random - 0.2
    assert up > random + 0.2
    for name, value in model.state_dict().items():
        assert name.startswith("augmenter.") or torch.equal(value, weights[name]), name
    assert all(0 < share <= 1 for row in rows.values() for share in row["in_place"])


def test_it_repeats_itself_and_rounds_differ(trained, saved, monkeypatch):
    monkeypatch.chdir(trained)
    once, twice = (
        list(study(*load(saved, None), 1, 2, 2, tqdm(disable=True), ["REINFORCE, up"])) for _ in range(2)
    )
    assert once == twice and once[0]["infonce"] != once[4]["infonce"]


def test_the_command(trained, saved, workplace, capsys):
    """From another folder, so that --data_path is needed."""
    short = ["--steps", "1", "--batches", "1", "--rounds", "1"]
    data = ["--data_path", str(trained / "dataset")]
    main(["adversary", saved, *data, *short, "-o", "out.json"])
    assert "| yes | random matrices |" in capsys.readouterr().out
    record = json.loads((workplace / "out.json").read_text())
    assert (
        [row["views"] for row in record["rows"]] == 2 * [RANDOM, *LEARNED]
        and record["dataset"] == "toy"
        and record["model"] == "AsarSASRec"
    )


def test_bad_input(toy, trained, saved, capsys):
    run_recbole(
        model="SASRec",
        dataset="toy",
        config_dict={
            **{k: v for k, v in SMALL.items() if k != "training"},
            "epochs": 1,
            "train_neg_sample_args": None,
        },
    )
    (stock,) = (toy / "saved").glob("*.pth")
    for words, said in (
        ([str(stock)], "is of SASRec; name one of an Asar model"),
        ([saved, "--steps", "0"], "--steps must be 1 or more, not 0"),
        (["nowhere.pth"], "does not exist"),
    ):
        assert main(["adversary", *words]) == 2
        assert said in capsys.readouterr().err
