"""The reliability campaign's short form, and the arithmetic of its table."""

import json

import pytest
import torch
from robustness.faults import Outcome, equal
from robustness.reliability import as_text, extreme_settings

from benchmarks.__main__ import main


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


def test_an_extreme_that_breaks_without_a_word_fails_the_campaign(monkeypatch):
    def breaks(extreme, steps, data_path):
        if extreme.alike:
            raise ArithmeticError("a gradient is not finite though the loss is")
        return "finite"

    monkeypatch.setattr("robustness.extremes.play", breaks)
    outcome, ends = extreme_settings(1)
    assert outcome.passed is False and outcome.detail.endswith("without a word: all histories equal")
    assert ends["all histories equal"].startswith("a gradient")


@pytest.mark.campaign
def test_the_short_campaign_holds(workplace, monkeypatch, capsys):
    arguments = ["reliability", "--short", "-o", "reliability.json"]
    monkeypatch.setattr("sys.argv", ["python", *arguments])
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "| kills survived | 1 | yes |" in shown and "| codes run from hostile files | 0 | yes |" in shown
    whole = json.loads((workplace / "reliability.json").read_text())
    assert whole["inputs fuzzed"]["atomic"]["tried"] >= 200 and (workplace / "reliability.md").is_file()
