"""Benchmarks must measure what they say; their figures are not tested, their arithmetic is."""

import json

import pytest
from conftest import write_atomic

from recbole_asarrec.__main__ import main
from recbole_asarrec.benchmark.contenders import CONTENDERS, RATIOS
from recbole_asarrec.benchmark.speed import as_text, sample_users, summarise


def test_ratios_are_taken_round_by_round():
    def run(*epochs):
        return {"epochs": list(epochs), "rows": 100, "build": 1.0, "validate": 0.5, "peak_gib": 1.0}

    runs = {"none, prefix": [run(2.0), run(4.0), run(3.0)], "AsarRec, prefix": [run(3.0), run(6.0), run(6.0)]}
    summary = summarise(runs)
    assert summary["ratios"]["AsarRec ÷ none, prefix"] == {"median": 1.5, "range": [1.5, 2.0]}
    row = summary["contenders"]["none, prefix"]
    assert (
        row["epoch_s"] == 3.0
        and row["epoch_s_range"] == [2.0, 4.0]
        and row["rows_per_s"] == pytest.approx(33.3, abs=0.1)
    )
    assert "| AsarRec ÷ none, prefix | 1.500 (1.500–2.000) |" in as_text(summary)


def test_every_ratio_is_between_contenders():
    assert all(above in CONTENDERS and below in CONTENDERS for _, above, below in RATIOS)


def test_a_sample_keeps_whole_users_and_is_always_the_same(tmp_path):
    source = write_atomic(tmp_path, "toy", users=400)
    for name in ("one", "two"):
        sample_users(source, tmp_path / name, 0.25)
    assert (tmp_path / "one").read_text() == (tmp_path / "two").read_text()
    kept = (tmp_path / "one").read_text().splitlines()[1:]
    users = {line.split("\t")[0] for line in kept}
    assert 60 < len(users) < 140
    everything = [line for line in source.read_text().splitlines()[1:] if line.split("\t")[0] in users]
    assert kept == everything


@pytest.mark.slow
def test_speed_and_inference_run_and_write_their_results(toy, monkeypatch, capsys):
    wanted = ["none, all positions", "AsarRec, all positions"]
    arguments = ["benchmark", "speed", "--dataset=toy", "--rounds=1", "-o", "speed.json", "--only", *wanted]
    monkeypatch.setattr("sys.argv", ["python", *arguments])
    assert main(arguments) == 0
    result = json.loads((toy / "speed.json").read_text())
    assert set(result["contenders"]) == set(wanted) and result["machine"]["cores"] >= 1
    assert result["ratios"]["AsarRec ÷ none, all positions"]["median"] > 0
    assert "none, all positions" in capsys.readouterr().out

    arguments = ["benchmark", "inference", "--dataset=toy", "--rounds=2", "-o", str(toy / "inference.json")]
    monkeypatch.setattr("sys.argv", ["python", *arguments])
    assert main(arguments) == 0
    assert json.loads((toy / "inference.json").read_text())["ratio"] > 0


def test_mistakes_get_one_sentence(toy, capsys):
    assert main(["benchmark", "speed", "--dataset=toy", "--only", "nobody"]) == 2
    assert "There is no contender 'nobody'" in capsys.readouterr().err
    assert main(["benchmark", "speed", "--dataset=nowhere", "--sample=0.1"]) == 2
    assert "does not exist" in capsys.readouterr().err
