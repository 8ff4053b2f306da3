"""From records to tables and files: what is grouped, marked, refused, written and left alone."""

import csv
import io
import json
import re
from collections import Counter
from html.parser import HTMLParser

import pytest
import yaml
from helpers import SMALL
from made_runs import made_views, make_record, small_study

from recbole_asarrec.__main__ import main
from recbole_asarrec.errors import DataError
from recbole_asarrec.experiments.records import PROTOCOLS, Spec, append, read
from recbole_asarrec.experiments.run import run
from recbole_asarrec.experiments.significance import METRICS, per_user
from recbole_asarrec.report.contents import MISSING, contents
from recbole_asarrec.report.formats import (
    CSV_HEAD,
    latex,
    leaderboard,
    leaderboard_csv,
    leaderboard_json,
    markdown,
)
from recbole_asarrec.report.page import page
from recbole_asarrec.report.study import study, sweep, sweep_centers
from recbole_asarrec.report.tables import make_table

SEEDS = (1, 2, 3)


@pytest.fixture(scope="module")
def found():
    return contents(small_study())


def only_table(records, protocol="all_items"):
    ((setting, methods),) = study(records).items()
    return make_table(setting, methods, protocol)


def row(table, label):
    return next(one for one in table.rows if one.method.label == label)


def test_a_setting_is_a_table_and_rows_stand_in_the_papers_order(found):
    titles = [table.setting.title for table in found.tables if table.protocol == "all_items"]
    both = ["toy · SASRec · robust recipe · clean", "toy · SASRec · robust recipe · 20% noise"]
    assert titles == both
    labels = [one.method.label for one in found.tables[0].rows]
    assert labels == ["SASRec", "Crop", "Mask", "Insert", "Insert + Mask", "AsarRec"]


def test_numbers_are_the_ranks(found):
    records = [
        r for r in small_study() if r.spec.augmentation == "asar" and "num_candidates" not in r.spec.keys
    ]
    clean = [r for r in records if not r.spec.noise_ratio]
    cell = row(found.tables[0], "AsarRec").cells["ndcg@20"]
    expected = [per_user(r.ranks["all_items"], "ndcg@20").mean() for r in clean]
    assert cell.spread.values == pytest.approx(expected)
    baselines = [one.cells["ndcg@20"].spread.mean for one in found.tables[0].rows[:-1]]
    assert cell.gain == pytest.approx(cell.spread.mean / max(baselines) - 1)
    assert cell.place == 1 and cell.baseline.baseline == "Insert" and cell.backbone.baseline == "SASRec"


def test_one_family_holds_every_comparison_of_a_table(found):
    """Six methods: four metrics against the runner-up and five methods against the backbone, once each."""
    cells = [cell for one in found.tables[0].rows for cell in one.cells.values()]
    tests = {(t.method, t.baseline, t.metric): t for c in cells for t in (c.baseline, c.backbone) if t}
    assert len(tests) == 4 + 5 * 4
    smallest = min(tests.values(), key=lambda t: t.p_t)
    assert smallest.p >= smallest.p_t * len(tests) * (1 - 1e-9)


def test_asarrec_is_measured_against_backbone_best_rival_and_controls(found):
    """Neither its controls nor a variant of its own is a baseline, however good they are."""
    effects = {"none": 0.0, "crop": 0.05, "mask": 0.2, "random_matrix": 0.9, "asar": 1.0}
    records = [make_record(name, seed, effect) for name, effect in effects.items() for seed in SEEDS]
    records += [make_record("asar", seed, 1.5, temperature=0.5) for seed in SEEDS]
    table = only_table(records)
    assert [(gain.opponent, gain.over) for gain in table.gains] == [
        ("backbone", "SASRec"),
        ("baseline", "Mask"),
        ("random_matrix", "Random matrix"),
    ]
    own = table.champion.cells["hit@10"].spread.mean
    for gain in table.gains:
        theirs = row(table, gain.over).cells["hit@10"].spread.mean
        assert gain.tests["hit@10"].gain == pytest.approx(own / theirs - 1)
    text = markdown([table])
    assert "| AsarRec, defaults over the best baseline (Mask) | | +" in text
    assert "over the best baseline (Mask) & +" in latex([table])
    (entry,) = [one for one in leaderboard([table]) if one["gains"]]
    assert entry["method"] == "AsarRec, defaults"
    assert [one["over"] for one in entry["gains"]] == ["SASRec", "Mask", "Random matrix"]
    assert [gain.opponent for gain in found.tables[0].gains] == ["backbone", "baseline"]


def test_a_gain_over_what_cannot_be_compared_is_not_told():
    records = [make_record("none", seed, users="others", number=300) for seed in SEEDS]
    (gain,) = only_table([*records, *(make_record("asar", seed, 1.0) for seed in SEEDS)]).gains
    assert gain.tests["hit@10"].refused and gain.tests["hit@10"].gain is None


def test_a_gain_is_over_the_seeds_that_both_have():
    """A baseline that ran one lucky seed is compared with AsarRec's run of that seed, not with its mean."""
    records = [make_record("none", 1, 0.2), *(make_record("asar", seed, 0.3) for seed in SEEDS)]
    (gain,) = only_table(records).gains
    one, two = (per_user(record.ranks["all_items"], "ndcg@10").mean() for record in records[:2])
    assert gain.tests["ndcg@10"].gain == pytest.approx(two / one - 1)


def test_a_gain_says_in_how_many_seeds_it_is_one():
    """A mean over seeds may be one lucky seed, of which p knows nothing."""
    effects = {1: 1.0, 2: -0.2, 3: 0.5}
    records = [make_record("none", seed, 0.0) for seed in effects]
    records += [make_record("asar", seed, effect) for seed, effect in effects.items()]
    table = only_table(records)
    (gain,) = table.gains
    assert {(test.ahead, test.seeds) for test in gain.tests.values()} == {(2, 3)}
    assert " 2/3 |" in markdown([table]) and "2/3" in latex([table])
    alone = only_table([one for one in records if one.spec.seed == 1])
    assert "1/1" not in markdown([alone])


def test_variants_are_named_by_what_tells_them_apart():
    """Keys that change together made names that no table had room for; a method's own keys all count."""
    mild = {"hidden_dropout_prob": 0.3, "attn_dropout_prob": 0.3, "epochs": 15}
    usual = {"hidden_dropout_prob": 0.5, "attn_dropout_prob": 0.5, "epochs": 20}
    records = [make_record("none", 1, **keys) for keys in (mild, usual)]
    less = {**mild, "denoise_strength": 0, "ema_decay": 0}
    records += [make_record("asar", 1, 1.0, **keys) for keys in (mild, less)]
    assert {one.method.label for one in only_table(records).rows} == {
        "SASRec, hidden_dropout_prob 0.5",
        "SASRec, hidden_dropout_prob 0.3",
        "AsarRec, defaults",
        "AsarRec, denoise_strength 0, ema_decay 0",
    }


def test_below_the_backbone_is_marked(found):
    table = found.tables[0]
    assert all(cell.worse for cell in row(table, "Mask").cells.values())
    assert not any(cell.worse for cell in row(table, "AsarRec").cells.values())
    assert "†" in row(table, "AsarRec").cells["ndcg@10"].marks


def test_a_sweeps_arms_stay_out_of_the_table(found):
    """The centre of the sweep is the row; it is the same run whether its k was written out or not."""
    methods = next(iter(study(small_study()).values()))
    arms = sweep(methods, "num_candidates")
    assert [value for value, _ in arms] == [0, 1, 3, 10]
    assert [method.label for method in sweep_centers(methods)].count("AsarRec") == 1
    assert "3 variants" in " ".join(found.tables[0].notes)
    assert sweep(methods, "semantic_weight") == []


def test_variants_that_are_no_sweep_are_named_by_what_differs():
    records = [make_record("asar", seed, 0.1, temperature=t) for t in (0.1, 0.5) for seed in SEEDS]
    records += [make_record("asar", seed, 0.1) for seed in SEEDS]
    labels = [one.method.label for one in only_table(records).rows]
    assert sorted(labels) == ["AsarRec, defaults", "AsarRec, temperature 0.1", "AsarRec, temperature 0.5"]


def test_the_plainest_variant_stands_for_its_method():
    """Whatever the order of the files, a table's backbone and AsarRec are those without keys of their own."""
    records = [
        make_record(name, seed, effect, **keys)
        for name, effect in (("none", 0.0), ("asar", 0.3))
        for keys in ({"ema_decay": 0.5}, {})
        for seed in SEEDS
    ]
    table = only_table(records)
    assert table.champion.method.label == "AsarRec, defaults"
    assert table.champion.cells["hit@10"].backbone.baseline == "SASRec, defaults"


def test_of_the_backbones_settings_validation_chooses():
    """A gain over a backbone at its worse dropout would be none. One setting stands for a method at all
    levels of noise, chosen where the data are cleanest: by noisy data's validation it would be the other."""

    def runs(name, dropout, clean, noisy):
        levels = ((0.0, clean), (0.2, noisy))
        return [
            make_record(name, seed, effect, noise_ratio=ratio, hidden_dropout_prob=dropout)
            for ratio, effect in levels
            for seed in SEEDS
        ]

    records = runs("none", 0.3, 0.0, 0.3) + runs("none", 0.5, 0.2, 0.1)
    records += runs("asar", 0.3, 0.6, 0.5) + runs("asar", 0.5, 0.5, 0.6)
    for setting, methods in study(records).items():
        table = make_table(setting, methods, "all_items")
        assert table.champion.method.label == "AsarRec, hidden_dropout_prob 0.3"
        assert {gain.over for gain in table.gains} == {"SASRec, hidden_dropout_prob 0.5"}


def test_a_method_has_one_name_at_every_level_of_noise():
    """A variant at one level must not rename the method there, or its curve would fall apart."""
    records = [make_record("asar", seed, noise_ratio=ratio) for ratio in (0, 0.2, 0.4) for seed in SEEDS]
    records += [make_record("asar", seed, ema_decay=0.5) for seed in SEEDS]
    plain = "AsarRec, defaults"
    labels = [[method.label for method in methods] for methods in study(records).values()]
    assert labels == [[plain, "AsarRec, ema_decay 0.5"], [plain], [plain]]
    (curves,) = contents(records).figures["noise"]
    assert {len(line["x"]) for line in curves.specs["all_items"]["data"]} == {3}


def test_filtered_data_is_other_data():
    """A dataset's own settings change nothing; any other filter makes a table of its own, and says so."""
    usual = make_record(dataset="amazon-beauty", item_inter_num_interval="[5,inf)")
    core = make_record(dataset="amazon-beauty", item_inter_num_interval="[20,inf)")
    titles = [setting.dataset for setting in study([usual, core, make_record(dataset="amazon-beauty")])]
    assert titles == ["amazon-beauty", "amazon-beauty, item_inter_num_interval [20,inf)"]


def test_the_backbone_trained_alike_comes_before_the_stock_model():
    """A stock model has the plain recipe, and stands beside what was trained by it."""
    records = [make_record("none", seed, 0.0, model="SASRec") for seed in SEEDS]
    for name, effect in (("none", 0.0), ("asar", 0.3)):
        records += [make_record(name, seed, effect, recipe="plain") for seed in SEEDS]
    table = only_table(records)
    assert [one.method.label for one in table.rows] == ["SASRec (stock)", "SASRec", "AsarRec"]
    assert row(table, "AsarRec").cells["hit@10"].backbone.baseline == "SASRec"


def test_methods_are_compared_at_equal_recipe_and_recipes_at_equal_method():
    """A gain of the recipe must not stand in the method's name."""
    effects = {
        ("none", "plain"): 0.0,
        ("none", "robust"): 0.4,
        ("asar", "robust"): 0.5,
        ("mask", "plain"): 0.1,
    }
    records = [
        make_record(name, seed, effect, recipe=recipe)
        for (name, recipe), effect in effects.items()
        for seed in SEEDS
    ]
    found = contents(records)
    rows = {
        table.setting.recipe: [one.method.label for one in table.rows]
        for table in found.tables
        if table.protocol == "all_items"
    }
    assert rows == {"plain": ["SASRec", "Mask"], "robust": ["SASRec", "AsarRec"]}
    recipes = found.recipes[0]
    assert recipes.setting.title == "toy · SASRec · SASRec, by recipe · clean"
    assert [one.method.label for one in recipes.rows] == ["robust", "plain"]
    (gain,) = recipes.gains
    assert gain.title == "robust over plain" and gain.tests["ndcg@10"].gain > 0
    assert len({table.setting for table in found.recipes}) == 1, "AsarRec and Mask have one recipe each"
    (entry,) = [one for one in found.entries if one["method"] == "robust" and one["protocol"] == "all_items"]
    assert entry["recipe"] == "robust" and entry["augmentation"] == "none"
    made = page(found)
    assert "by recipe" in made and "robust over plain" in made
    assert "needs one method under two" in page(
        contents([one for one in records if one.spec.recipe == "plain"])
    )


def test_missing_seeds_pair_what_is_common_and_say_so():
    records = [make_record("none", seed) for seed in (1, 2)] + [
        make_record("asar", seed, 1.0) for seed in SEEDS
    ]
    table = only_table(records)
    cell = row(table, "AsarRec").cells["hit@10"]
    assert len(cell.spread.values) == 3 and cell.baseline.seeds == 2 and cell.marks == ""
    assert any("different numbers of seeds (SASRec 2, AsarRec 3)" in note for note in table.notes)


def test_one_method_and_one_seed_are_a_table_without_tests():
    table = only_table([make_record("asar", 1)])
    cell = table.rows[0].cells["hit@10"]
    assert cell.spread.std is None and cell.gain is None and cell.marks == "" and cell.baseline is None
    assert any("one method only" in note for note in table.notes) and table.champion is None


def test_different_users_are_shown_but_not_compared():
    records = [make_record("none", seed, users="others", number=300) for seed in SEEDS]
    records += [make_record("asar", seed, 1.0) for seed in SEEDS]
    table = only_table(records)
    assert row(table, "AsarRec").cells["hit@10"].marks == ""
    assert "AsarRec and SASRec are not compared: they were tested on different users." in table.notes


def test_markdown_and_latex_mark_best_runner_up_and_worse(found):
    text = markdown(found.tables)
    line = next(line for line in text.splitlines() if line.startswith("| AsarRec"))
    assert line.count("**0.") == len(METRICS) and r"\*\*†" in line
    assert next(line for line in text.splitlines() if line.startswith("| Mask")).count("<i>") == 4
    tex = latex(found.tables)
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == len(found.tables)
    assert r"\textbf{0." in tex and r"\underline{0." in tex and r"\textcolor{gray}{0." in tex
    assert not re.search(r"(?<!\\)[%&_](?![^\n]*\\\\)", "\n".join(tex.splitlines()[2:]).replace(" & ", " "))


def test_names_cannot_break_out_of_a_table():
    """A pipe in Markdown, an underscore in LaTeX, a formula in a spreadsheet."""
    records = [make_record("asar", 1, dataset="=a|b_c&d<i>", similarity=s) for s in ("x|y", "z")]
    made = contents(records)
    assert "=a\\|b\\_c&d&lt;i&gt;" in markdown(made.tables) and "x\\|y" in markdown(made.tables)
    assert r"=a|b\_c\&d\textless{}i\textgreater{}" in latex(made.tables)
    assert next(csv.reader(leaderboard_csv(made.entries).splitlines()[1:]))[0] == "'=a|b_c&d<i>"


def test_csv_and_json_say_the_same(found):
    rows = list(csv.DictReader(io.StringIO(leaderboard_csv(found.entries))))
    entries = json.loads(leaderboard_json(found.entries))["rows"]
    assert len(rows) == len(entries) == sum(len(table.rows) for table in found.tables)
    for line, entry in zip(rows, entries):
        assert line["method"] == entry["method"] and line["seeds"] == "1 2 3"
        for metric in METRICS:
            assert float(line[f"{metric} mean"]) == entry["metrics"][metric]["mean"]
            assert line[f"{metric} marks"] == entry["metrics"][metric]["marks"]


def test_yaml_reproduces_the_run(found):
    """What it says, with the model and the dataset of its first line, is the specification."""
    entry = next(one for one in found.entries if one["method"] == "Insert + Mask")
    keys = yaml.safe_load(entry["yaml"])
    assert keys == {"seed": 1, "augmentation": ["insert", "mask"]}
    assert "--model=AsarSASRec --dataset=toy" in entry["yaml"] and "# and 2, 3" in entry["yaml"]


def test_figures_are_valid_for_plotly(found):
    """Plotly's Python package checks every name and value."""
    graph_objects = pytest.importorskip("plotly.graph_objects")
    drawn = [figure for chapter in found.figures.values() for figure in chapter]
    assert len(drawn) == 6 and len({figure.name for figure in drawn}) == 6
    for figure in drawn:
        for spec in figure.specs.values():
            graph_objects.Figure(spec)


def test_noise_curves_hold_the_tables_numbers(found):
    (figure,) = found.figures["noise"]
    lines = [line for line in figure.specs["unseen_items"]["data"] if line["name"] == "AsarRec"]
    tables = [table for table in found.tables if table.protocol == "unseen_items"]
    for line, metric in zip(lines, METRICS):
        assert line["x"] == [0, 0.2]
        assert line["y"] == [row(table, "AsarRec").cells[metric].spread.mean for table in tables]


def test_what_has_no_runs_is_left_out_with_the_grid_that_would_make_it():
    made = contents([make_record("asar", 1)])
    text = page(made)
    for chapter in ("noise", "motivation", "sweeps", "matrices"):
        assert made.figures[chapter] == []
        assert MISSING[chapter].replace("'", "&#x27;") in text
    assert MISSING["learning"] not in text


def test_nothing_from_outside_is_markup():
    records = [
        make_record(
            "asar",
            seed,
            dataset="<b>x</b>",
            similarity="</script><script>alert(3)</script>",
            views=made_views(),
        )
        for seed in SEEDS
    ]
    seen = {"tags": Counter(), "text": ""}
    reader = HTMLParser()
    reader.handle_starttag = lambda tag, _: seen["tags"].update([tag])
    reader.handle_data = lambda text: seen.update(text=seen["text"] + text)
    reader.feed(page(contents(records)))
    assert seen["tags"]["script"] == 3 and not seen["tags"]["img"]  # the data, Plotly, the page's own
    assert "<b>x</b>" in seen["text"]


def write_study(folder):
    for record in small_study():
        append(record, folder)


def test_the_command_writes_five_files_again_and_again(workplace, capsys):
    write_study("results")
    assert main(["report", "results", "-o", "report.html"]) == 0
    names = {"report.html", "report.md", "report.tex", "leaderboard.json", "leaderboard.csv"}
    first = {name: (workplace / name).read_bytes() for name in names}
    assert {path.name for path in workplace.iterdir()} == {*names, "results"}
    assert main(["report", "results", "results", "-o", "report.html"]) == 0  # the same runs twice are once
    assert {name: (workplace / name).read_bytes() for name in names} == first
    assert "42 runs" in capsys.readouterr().out


def test_a_real_run_becomes_a_report_with_its_cases(toy):
    """The runner's own records, views and noise included, not ones made up here."""
    for augmentation in ("none", "asar"):
        spec = Spec("AsarSASRec", "toy", 1, {**SMALL, "augmentation": augmentation, "noise_ratio": 0.2})
        append(run(spec, toy / "saved"), "results")
    assert main(["report", "results"]) == 0
    rows = json.loads((toy / "leaderboard.json").read_text())["rows"]
    assert {(row["method"], row["protocol"]) for row in rows} == {
        (method, protocol) for method in ("SASRec", "AsarRec") for protocol in PROTOCOLS
    }
    records = {record.spec.augmentation: record for record in read("results")}
    for entry in rows:
        said = records[entry["augmentation"]].test[entry["protocol"]]["hit@10"]
        assert entry["metrics"]["hit@10"]["mean"] == pytest.approx(said, abs=1e-4)
    views = records["asar"].views
    text = (toy / "report.html").read_text()
    assert views["cases"] and all(f'"user":"{case["user"]}"' in text for case in views["cases"])


@pytest.mark.parametrize("name", ["report.html", "report.md", "leaderboard.csv"])
def test_a_file_that_is_no_report_is_not_overwritten(workplace, capsys, name):
    append(make_record(), "results")
    (workplace / name).write_text("my notes")
    assert main(["report", "results"]) == 2
    assert f"The file '{name}' exists and is no report" in capsys.readouterr().err
    assert (workplace / name).read_text() == "my notes" and len(list(workplace.iterdir())) == 2
    assert main(["report", "results", "--overwrite"]) == 0
    assert (workplace / name).read_text() != "my notes"
    assert (workplace / "leaderboard.csv").read_text().startswith(CSV_HEAD)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "holds no results"),
        (["empty"], "no finished run"),
        (["results", "-o", "report.pdf"], "must end in .html"),
        (["results", "-o", "no/report.html"], "does not exist"),
    ],
)
def test_mistakes_are_named(workplace, capsys, arguments, said):
    append(make_record(), "results")
    (workplace / "empty").mkdir()
    (workplace / "empty" / "runs.jsonl").write_text("")
    assert main(["report", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_full_disk_leaves_the_old_report(workplace, monkeypatch):
    from recbole_asarrec.report import command

    target = workplace / "report.md"
    command.write(target, "old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DataError, match="No space left"):
        command.write(target, "new")
    assert target.read_text() == "old" and list(workplace.iterdir()) == [target]
