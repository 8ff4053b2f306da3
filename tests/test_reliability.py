"""The reliability campaign's short form, and the arithmetic of its table."""

import json

import pytest
import torch

from recbole_asarrec.__main__ import main
from recbole_asarrec.benchmark.faults import Outcome, equal
from recbole_asarrec.benchmark.reliability import as_text


def test_equal_means_to_the_bit():
    state = {"w": torch.tensor([1.0, 2.0]), "n": [1, (2, None)]}
    assert equal(state, {"w": torch.tensor([1.0, 2.0]), "n": [1, (2, None)]})
    assert not equal(state, {"w": torch.tensor([1.0, 2.0 + 2e-7]), "n": [1, (2, None)]})
    assert not equal(state, {"w": state["w"], "n": [1, [2, None]]}) and not equal(state, {"w": state["w"]})


def test_the_table_tells_what_did_not_hold():
    text = as_text([Outcome("a", "3", True), Outcome("b", "1", False, "x | y"), Outcome("c", "–", None)])
    assert text.splitlines()[2:] == [
        "| a | 3 | yes |  |",
        "| b | 1 | **no** | x / y |",
        "| c | – | not tried |  |",
    ]


@pytest.mark.slow
def test_the_short_campaign_holds(workplace, monkeypatch, capsys):
    arguments = ["benchmark", "reliability", "--short", "-o", "reliability.json"]
    monkeypatch.setattr("sys.argv", ["python", *arguments])
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "| kills survived | 1 | yes |" in shown and "| codes run from hostile files | 0 | yes |" in shown
    whole = json.loads((workplace / "reliability.json").read_text())
    assert whole["inputs fuzzed"]["atomic"]["tried"] >= 200 and (workplace / "reliability.md").is_file()
