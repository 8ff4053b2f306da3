"""Result pages must say what the records say: every figure, every setting, and nothing typed by hand."""

import json
import re
import shlex
from functools import cache
from statistics import mean, stdev

import numpy as np
import pytest
import yaml
from helpers import ROOT
from made_runs import make_record, small_study
from recbole.config import Config
from recbole.evaluator import metrics as recboles

from benchmarks import leaderboard, leaderboard_settings, leaderboard_tables
from recbole_asarrec.cli.train import check_keys
from recbole_asarrec.errors import DataError
from recbole_asarrec.experiments.significance import per_user
from recbole_asarrec.report.study import study
from recbole_asarrec.training.checkpoint import to_plain

PAGES = ROOT / "docs" / "results"
CLASSES = {
    "recall": recboles.Recall,
    "mrr": recboles.MRR,
    "ndcg": recboles.NDCG,
    "hit": recboles.Hit,
    "precision": recboles.Precision,
}


@cache
def recorded():
    return leaderboard.recorded()


@cache
def written(name):
    return (PAGES / name).read_text(encoding="utf-8")


def timeless(text):
    """Without the sentence that depends on the history of the source tree."""
    return re.sub(r"^When this page was written, .*$", "", text, flags=re.M)


def rows(text, *first):
    """Cells of the table rows that begin with these."""
    found = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [cells for cells in found if tuple(cells[: len(first)]) == first]


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_is_what_the_command_writes(page):
    """`python -m benchmarks leaderboard` writes it; a figure that was edited by hand, or is old, fails."""
    tested, trials = recorded()
    alike = [record for record in tested if record.spec.dataset == page.stem]
    if page.name == "index.md":
        by_dataset = {}
        for record in sorted(tested, key=lambda one: one.spec.dataset):
            by_dataset.setdefault(record.spec.dataset, []).append(record)
        made = leaderboard.index(by_dataset)
    else:
        made = leaderboard.page(page.stem, alike, trials)
    assert timeless(page.read_text(encoding="utf-8")) == timeless(made)


def test_every_dataset_has_its_page_and_the_site_lists_them():
    datasets = sorted({record.spec.dataset for record in recorded()[0]})
    names = ["index.md", *(f"{name}.md" for name in datasets)]
    assert sorted(names) == sorted(page.name for page in PAGES.glob("*.md"))
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert leaderboard.navigation(site, names) == site
    assert leaderboard.navigation(site, ["index.md", "new.md"]).count("results/") == 2


@pytest.mark.parametrize("column", leaderboard_tables.COLUMNS)
def test_metrics_are_recboles(column):
    """A matrix of hits with one relevant item a user, as its evaluator collects it."""
    kind, _, k = column.partition("@")
    ranks = np.random.default_rng(0).integers(1, 60, 500)
    hits = ranks[:, None] == np.arange(1, 21)  # [U, 20]
    config = Config("SASRec", "toy", config_dict={"topk": [10, 20], "metric_decimal_place": 12, **QUIET})
    metric = CLASSES[kind](config)
    table = metric.topk_result(kind, metric.metric_info(*arguments(kind, hits)))
    assert per_user(ranks, column).mean() == pytest.approx(table[f"{kind}@{k}"], abs=1e-12)
    tested, k = leaderboard_tables.tested_as(column), int(k)
    scale = 1 / k if kind == "precision" else 1
    assert per_user(ranks, column) == pytest.approx(scale * per_user(ranks, tested), abs=1e-15)


QUIET = {"train_neg_sample_args": None, "state": "ERROR"}


def arguments(kind, hits):
    """What `metric_info` takes: recall and NDCG also how many relevant items a user has."""
    return (hits, np.ones(len(hits), dtype=int)) if kind in ("recall", "ndcg") else (hits,)


def test_one_cell_by_hand():
    """AsarRec on Amazon Arts, 20 % noise, history removed: mean and deviation over three seeds."""
    found = {}
    keys = {"recipe": "paper", "augmentation": "asar", "noise_ratio": 0.2, "contrastive_weight": 0.3}
    for line in (ROOT / "benchmarks/results/paper-arts/runs.jsonl").read_text().splitlines():
        spec = json.loads(line)["spec"]
        if spec["keys"] == keys:
            ranks = leaderboard.Record.from_json(line).ranks["unseen_items"].tolist()
            found[spec["seed"]] = mean(1 / rank if rank <= 20 else 0 for rank in ranks)
    values = list(found.values())
    text = f"{mean(values):.4f} ± {stdev(values):.4f}".replace("0.", ".")
    section = (
        written("amazon-arts-18.md").partition("SASRec, paper recipe, 20% noise\n")[2].partition("\n#")[0]
    )
    learned = [row for row in rows(section) if row[0].startswith("AsarRec")]
    found = [row for row in learned if row[1:3] == ["removed", str(len(values))]]
    cells = [row[3 + leaderboard_tables.COLUMNS.index("mrr@20")] for row in found]
    assert len(values) >= 3 and any(cell.startswith(text) for cell in cells)


def differences(record, config):
    """Recorded keys that a configuration has otherwise; ``auto`` was nobody's choice."""
    made, apart = to_plain(dict(config.final_config_dict)), {"state", "show_progress", "resume"}
    return {
        key: (value, made[key])
        for key, value in record.config.items()
        if key in made and key not in apart and value not in ("auto", made[key])
    }


def test_the_command_of_a_page_makes_the_recorded_configuration(tmp_path, monkeypatch):
    """The command line and the shared YAML are read as ``run_recbole.py`` reads them."""
    for setting, methods in study(recorded()[0]).items():
        shared = leaderboard_settings.shared_keys(
            [one for method in methods for one in method.records.values()]
        )
        (tmp_path / "shared.yaml").write_text(yaml.safe_dump(shared))
        for method in methods:
            record = method.any_record
            _, script, *words = shlex.split(leaderboard_settings.command(record, shared))
            assert script == "run_recbole.py" and "--data_path=…" in words
            named = {"--model", "--dataset", "--config_files", "--data_path"}
            keys = [word for word in words if word.partition("=")[0] not in named]
            check_keys(keys)
            monkeypatch.setattr("sys.argv", [script, *keys, "--state=error"])
            config = Config(record.spec.model, record.spec.dataset, [str(tmp_path / "shared.yaml")])
            assert differences(record, config) == {}, setting


def test_a_list_of_operations_can_be_typed(monkeypatch):
    record = make_record(["crop", "mask"])
    words = shlex.split(leaderboard_settings.command(record, {}))
    (typed,) = (word for word in words if word.startswith("--augmentation"))
    monkeypatch.setattr("sys.argv", ["run_recbole.py", typed, "--state=error"])
    assert Config("AsarSASRec", "toy")["augmentation"] == ["crop", "mask"]


def test_a_page_gives_the_keys_of_every_run():
    """Shared keys, those of a row and the axes of the page: together what was asked for."""
    for setting, methods in study(recorded()[0]).items():
        records = [record for method in methods for record in method.records.values()]
        shared = leaderboard_settings.shared_keys(records)
        for record in records:
            whole = {**shared, **leaderboard_settings.own_keys(record, shared), "recipe": setting.recipe}
            whole["noise_ratio"] = setting.noise_ratio
            assert {key: whole[key] for key in record.spec.keys} == record.spec.keys


def made_page(records, trials=()):
    return leaderboard.page("toy", records, trials)


def test_sections_and_marks_of_made_runs():
    """Three seeds of an effect are marked, two are not; each comparison has a section of its own."""
    strong = [
        make_record(name, seed, effect) for name, effect in (("none", 0), ("asar", 1)) for seed in (1, 2, 3)
    ]
    page = made_page(strong)
    (kept,) = rows(page, "AsarRec", "kept")
    assert kept[2] == "3" and all(cell.startswith("**") and cell.endswith("\\*\\*†") for cell in kept[3:])
    assert "## Recipes" not in page and "## Backbones" not in page
    weak = made_page([record for record in strong if record.spec.seed < 3])
    assert "†" not in "".join(cell for row in rows(weak, "AsarRec") for cell in row)
    others = [
        make_record("none", seed, 0.2, recipe="plain", **keys)
        for seed in (1, 2, 3)
        for keys in ({}, {"model": "AsarGRU4Rec"})
    ]
    page = made_page([*strong, *others])
    recipes, backbones = page.partition("## Recipes")[2].partition("## Backbones")[::2]
    assert [row[0] for row in rows(recipes) if row[1] == "kept"] == ["robust", "plain"]
    assert [row[0] for row in rows(backbones.partition("## Time")[0]) if row[1] == "kept"] == [
        "GRU4Rec",
        "SASRec",
    ]


def test_the_backbone_with_most_seeds_is_tested_against():
    """One seed of a better tuned variant would leave every method without a mark."""
    records = [
        make_record(name, seed, effect) for name, effect in (("none", 0), ("asar", 1)) for seed in (1, 2, 3)
    ]
    page = made_page([*records, make_record("none", 1, 0.2, hidden_dropout_prob=0.2)])
    (kept,) = rows(page, "AsarRec", "kept")
    assert kept[3].endswith("†") and "`†` compares with SASRec, defaults." in page


def test_sweeps_stand_below_the_methods():
    page = made_page(small_study())
    methods, sweeps = page.partition("Sweeps:")[::2]
    assert not rows(methods, "AsarRec, num_candidates 0")
    assert len(rows(sweeps.partition("\n#")[0], "AsarRec, num_candidates 0")) == 2  # protocols


def test_what_was_searched_and_chosen():
    records = [make_record("none", seed, learning_rate=0.001) for seed in (1, 2, 3)] + [
        make_record("crop", 1)
    ]
    trials = [make_record("none", 1, effect, learning_rate=rate) for rate, effect in ((0.001, 0), (0.002, 1))]
    values = made_page(records, trials).partition("Values and tuning:")[2].partition("\n## ")[0]
    (backbone,), (crop,) = rows(values, "SASRec"), rows(values, "Crop")
    assert backbone[2] == "`learning_rate` 0.001, 0.002 (2 trials with 0 % noise)"
    assert backbone[3].startswith("`learning_rate: 0.002` (NDCG@10 ") and backbone[3].endswith(
        "; not used here)"
    )
    assert crop[2] == "not tuned"
    elsewhere = [make_record("none", 1, dataset="other", learning_rate=rate) for rate in (0.1, 0.2)]
    assert "trials" not in made_page(records, elsewhere)


def test_machines_and_commits_are_told():
    one, two = make_record("none", 1), make_record("crop", 1)
    assert "Runs of" not in made_page([one, two])
    two.machine.update(processor="another", commit="def5678")
    page = made_page([one, two])
    assert "Runs of 2 commits (abc1234, def5678) on 2 machines or set-ups." in page
    assert len(rows(page, "another")) == 1


def test_a_run_that_is_older_than_its_code_is_counted():
    records = [make_record("none", seed) for seed in (1, 2)]
    runs = [record.spec.run for record in records]
    said = leaderboard_settings.provenance(records, runs, runs[:1])
    assert "`abc1234` (2)" in said and ", 1 of the 2 runs were older than the code they depend on (" in said
    assert "2 are not listed in `benchmarks/figures.yaml`" in leaderboard_settings.provenance(records, (), ())


def test_time_is_the_median_epoch_of_all_seeds():
    records = [make_record("none", seed) for seed in (1, 2, 3)]
    for record in records:
        record.curve[:] = [{"epoch": 0, "seconds": float(record.spec.seed)}, {"epoch": 1, "seconds": 100.0}]
    records[0].curve[1]["seconds"] = 1.0
    (row,) = rows(made_page(records).partition("## Time")[2], "SASRec")
    assert row[3:] == ["2.5", "1.25"]  # of 1, 1, 2, 3, 100, 100


def test_the_yaml_is_yaml():
    for block in re.findall(r"```yaml\n(.*?)```", written("amazon-beauty.md"), re.S):
        assert isinstance(yaml.safe_load(block), dict)


def test_without_runs_there_is_no_page(tmp_path):
    assert leaderboard.recorded(tmp_path) == ([], [])
    with pytest.raises(DataError, match="no recorded run with test figures"):
        leaderboard.pages([], [make_record()])


def test_the_command_replaces_its_own_pages_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(leaderboard, "recorded", lambda: ([make_record("none", 1)], []))
    (tmp_path / "gone.md").write_text(leaderboard.MARK)
    (tmp_path / "mine.md").write_text("mine")
    leaderboard.run(leaderboard.argparse.Namespace(output=tmp_path))
    assert sorted(page.name for page in tmp_path.iterdir()) == ["index.md", "mine.md", "toy.md"]
    assert "| [toy](toy.md) | SASRec | robust | 0 % | 1 | 1 |" in (tmp_path / "index.md").read_text()
    assert "2 pages" in capsys.readouterr().out
