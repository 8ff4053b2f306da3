"""A misspelt key that silently does nothing costs a user a week; here it stops before data is read."""

import dataclasses
import re

import pytest
import yaml
from helpers import SMALL
from recbole.config import Config

from recbole_asarrec import AsarDataset, AsarSASRec, AsarTrainer
from recbole_asarrec.compat import properties_folder, read_properties, register_model
from recbole_asarrec.config.package_settings import PackageSettings
from recbole_asarrec.config.settings import RECIPES, AsarSettings
from recbole_asarrec.errors import ConfigError

CASES = [(AsarSettings, ("model", "Asar.yaml")), (PackageSettings, ("overall.yaml",))]


@pytest.mark.parametrize(("settings", "file"), CASES)
def test_yaml_and_code_have_the_same_defaults(settings, file):
    written = read_properties(*file)
    for f in dataclasses.fields(settings):
        assert f.name in written, f"{f.name} is not in {'/'.join(file)}"
        assert written[f.name] == f.default and type(written[f.name]) is type(f.default), f.name


KEY_FILES = [file for file in properties_folder().rglob("*.yaml") if file.name != "search.yaml"]


@pytest.mark.parametrize("file", sorted(KEY_FILES), ids=lambda f: f.name)
def test_every_key_says_its_type_and_meaning(file):
    """RecBole users read property files; each key has RecBole's `# (type) meaning` comment."""
    keys = yaml.safe_load(file.read_text())
    lines = [line for line in file.read_text().splitlines() if re.match(r"\w", line)]
    assert len(lines) == len(keys)
    for line in lines:
        assert re.search(r"# \((bool|int|float|str|list|dict)[^)]*\) \S", line), line


@pytest.mark.parametrize("settings", [AsarSettings, PackageSettings])
def test_defaults_pass_their_own_rules(settings):
    assert settings.read(dataclasses.asdict(settings())) == settings()


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("temperature", 0, "greater than 0"),
        ("temperature", "warm", "a number"),
        ("temperature", float("nan"), "a number"),
        ("contrastive_weight", -0.1, "at least 0"),
        ("perturbation_budget", 1.0, "less than 1"),
        ("num_candidates", 2.5, "whole number"),
        ("num_candidates", True, "whole number"),
        ("edit_cap", 1, "True or False"),
        ("edit_cap", None, "True or False"),
        ("identity_bias", "calibrate", "did you mean 'calibrated'"),
        ("contrast_on", "users", "did you mean 'user'"),
        ("assignment", "Mutual", "did you mean 'mutual'"),
        ("sinkhorn_rounds", 0, "at least 1"),
    ],
)
def test_a_value_that_does_not_fit_names_key_value_and_remedy(workplace, key, value, says):
    """There is no data in this folder: the message must come before anyone looks for it."""
    with pytest.raises(ConfigError) as error:
        Config(model="AsarSASRec", dataset="nowhere", config_dict={**SMALL, key: value})
    assert f"'{key}'" in str(error.value) and repr(value) in str(error.value) and says in str(error.value)


@pytest.mark.parametrize(
    ("key", "meant"), [("contrastiv_weight", "contrastive_weight"), ("learningrate", "learning_rate")]
)
def test_a_misspelt_key_is_named_with_the_right_one(workplace, key, meant):
    with pytest.raises(ConfigError, match=f"'{key}'.*did you mean '{meant}'"):
        Config(model="AsarSASRec", dataset="nowhere", config_dict={key: 0.5})


def test_misspelt_keys_are_found_wherever_they_come_from(workplace, monkeypatch):
    (workplace / "my.yaml").write_text("temprature: 0.5\n")
    with pytest.raises(ConfigError, match="temperature"):
        Config(model="AsarSASRec", dataset="nowhere", config_file_list=["my.yaml"])
    monkeypatch.setattr("sys.argv", ["run_recbole.py", "--temprature=0.5"])
    with pytest.raises(ConfigError, match="temperature"):
        Config(model="AsarSASRec", dataset="nowhere")


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"batching": "random"}, "needs batching: bucketed"),
        ({"benchmark_filename": ["a", "b", "c"]}, "benchmark_filename's own rows"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(workplace, keys, says):
    with pytest.raises(ConfigError, match=says):
        Config(model="AsarSASRec", dataset="nowhere", config_dict={"training": "all_positions", **keys})


def test_a_backbone_that_looks_ahead_is_refused_all_positions(workplace, monkeypatch):
    import recbole_asarrec

    monkeypatch.setattr(recbole_asarrec.AsarSASRec, "causal", False)
    with pytest.raises(ConfigError, match="SASRec is not causal"):
        Config(model="AsarSASRec", dataset="nowhere", config_dict={"training": "all_positions"})


def test_a_wrong_model_name_lists_the_ones_there_are(workplace):
    """Stock RecBole answers "No module named 'lightgbm'"."""
    with pytest.raises(ConfigError, match="did you mean 'AsarSASRec'.*GRU4Rec"):
        Config(model="AsarSASrec", dataset="ml-100k")
    with pytest.raises(ConfigError, match="There is no model 'Nonsense'; there are AsarSASRec"):
        Config(model="Nonsense", dataset="ml-100k")


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_gives_way_to_what_the_user_says(workplace, recipe):
    """Every key it sets is known, and five are set by each recipe."""
    keys = read_properties("recipe", f"{recipe}.yaml")
    assert keys.keys() >= read_properties("recipe", "plain.yaml").keys()
    config = Config("AsarSASRec", "ml-100k", config_dict={"recipe": recipe})
    assert {key: config[key] for key in keys} == keys
    mine = {"recipe": recipe, "loss_type": "CE", "gce_q": 0.7, "denoise_strength": 0.3}
    config = Config("AsarSASRec", "ml-100k", config_dict=mine)
    assert {key: config[key] for key in mine} == mine


def test_a_recipe_that_does_not_exist_is_refused(workplace):
    with pytest.raises(ConfigError, match="'recipe' must be one of robust, plain, paper, but is 'robst'"):
        Config("AsarSASRec", "ml-100k", config_dict={"recipe": "robst"})


def test_bpr_gets_its_negatives_and_ce_none(toy):
    """RecBole makes every user of CE write train_neg_sample_args=None."""
    assert Config("AsarSASRec", "toy")["train_neg_sample_args"]["distribution"] == "none"
    bpr = Config("AsarSASRec", "toy", config_dict={"loss_type": "BPR"})
    assert bpr["train_neg_sample_args"]["distribution"] == "uniform"
    popular = {"distribution": "popularity", "sample_num": 1}
    mine = Config("AsarSASRec", "toy", config_dict={"loss_type": "BPR", "train_neg_sample_args": popular})
    assert mine["train_neg_sample_args"]["distribution"] == "popularity"


def test_a_subclass_has_its_parents_defaults(workplace):
    """By its own name alone it would train with RecBole's: another dropout, with the same keys."""

    class Mine(AsarSASRec):
        """A user's own model."""

    register_model(Mine, AsarDataset, AsarTrainer)
    keys = {"state": "ERROR", "recipe": "paper"}
    parent, own = (
        Config(name, "ml-100k", config_dict=keys).final_config_dict for name in ("AsarSASRec", "Mine")
    )
    assert {key for key in {**parent, **own} if parent.get(key) != own.get(key)} == {"model"}
