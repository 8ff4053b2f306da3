"""Whatever bytes a reader is given, it answers or refuses in words: the corpus, and a few new inputs."""

import random

import pytest
from helpers import ROOT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from robustness.fuzz import TARGETS, attempt, fuzz, mutations, seeds

CORPUS = ROOT / "tests" / "robustness" / "corpus"


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_found_before_comes_back(name):
    """Inputs that once broke a target are kept in its corpus."""
    kept = seeds(name, CORPUS)
    assert kept, f"{CORPUS / name} is empty"
    assert [said for data in kept if (said := attempt(name, data))] == []


@pytest.mark.parametrize("name", TARGETS)
def test_a_taste_of_the_campaign(name):
    result = fuzz(name, 150, seed=1, corpus=CORPUS)
    assert result["tried"] >= 150 and result["findings"] == []


LINES = st.lists(
    st.lists(st.text(max_size=8) | st.sampled_from(["1", "nan", "user_id:token", '"']), max_size=4).map(
        "\t".join
    )
).map("\n".join)
KEYS = st.sampled_from(
    ["epochs", "topk", "eval_args", "temperature", "load_col", "valid_metric", "augmentation"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(LINES)
def test_atomic_files_of_any_lines(text):
    assert attempt("atomic", text.encode("utf-8", "surrogatepass")) is None


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(KEYS, VALUES))
def test_configurations_of_any_values(keys):
    import yaml

    assert attempt("configuration", yaml.safe_dump(keys).encode()) is None


@settings(max_examples=100, deadline=None)
@given(st.binary(min_size=16, max_size=600))
def test_matrices_of_any_floats(data):
    assert attempt("sinkhorn", data) is None


def test_the_fuzzer_would_notice(monkeypatch, tmp_path):
    """A target that breaks on a rare byte is found, and what broke it is reported."""

    def breaks(data):
        if b"\t\t" in data:
            raise KeyError("two tabs")

    monkeypatch.setattr("robustness.fuzz.TARGETS", {"weak": breaks})
    (tmp_path / "weak").mkdir()
    (tmp_path / "weak" / "seed").write_bytes(b"a\tb")
    result = fuzz("weak", 3000, corpus=tmp_path)
    assert result["findings"] and "two tabs" in result["findings"][0]["raised"]
    assert b"\t\t" in bytes.fromhex(result["findings"][0]["input"])


def test_mutations_repeat_themselves():
    one, two = (mutations([b"seed"], random.Random(3)) for _ in range(2))
    assert [next(one) for _ in range(50)] == [next(two) for _ in range(50)]
