"""Benchmarks must measure what they say; their figures are not tested, their arithmetic is."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from recbole.config import Config
from recbole.data import create_dataset

from benchmarks import common, generate, processes, reach, recommend, scale, warm_start, worker
from benchmarks.__main__ import COMMANDS, main
from benchmarks.contenders import CONTENDERS, OTHERS, RATIOS
from benchmarks.speed import as_text, summarise
from recbole_asarrec import Recommender
from recbole_asarrec.config.settings import AUGMENTATIONS
from recbole_asarrec.errors import UserError
from recbole_asarrec.training import checkpoint

JOB = {
    "contender": "AsarRec, all positions",
    "dataset": "toy",
    "data_path": "dataset",
    "epochs": 1,
    "keys": {"train_batch_size": 64, "seed": 1, "state": "ERROR"},
}


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


def test_a_sample_is_whole_users_of_the_whole_catalogue(toy):
    """Sampled before RecBole filters, a twentieth of Beauty's users came to 265 rows: one batch."""
    config = Config("AsarSASRec", "toy", config_dict=JOB["keys"])
    whole, one, two = (create_dataset(config) for _ in range(3))
    for sampled in (one, two):
        worker.keep_users(sampled, 0.5)
    assert one.inter_feat.equals(two.inter_feat)
    users = set(one.inter_feat["user_id"])
    assert 0.3 * whole.user_num < len(users) < 0.7 * whole.user_num and one.item_num == whole.item_num
    everything = whole.inter_feat[whole.inter_feat["user_id"].isin(users)]
    assert one.inter_feat.equals(everything.reset_index(drop=True))


def test_stock_and_plugin_measure_the_same_sample(toy):
    jobs = [{**JOB, "sample": 0.5, "contender": name} for name in ("RecBole SASRec", "none, prefix")]
    with torch.autograd.set_detect_anomaly(False):  # stock's worker leaves it on
        stock, own = (worker.measure(job)["rows"] for job in jobs)
    assert not torch.is_anomaly_enabled()
    assert 0 < stock == own < worker.measure({**JOB, "contender": "none, prefix"})["rows"]


def test_stock_its_contrastive_model_and_every_augmentation_are_measured():
    assert {"SASRec", "FEARec", "AsarSASRec"} == {contender.model for contender in CONTENDERS.values()}
    measured = {contender.keys.get("augmentation") for contender in CONTENDERS.values()}
    assert set(AUGMENTATIONS) - {"asar", "none"} <= measured
    assert all(f"{name}, all positions" in CONTENDERS for name in OTHERS)


def test_generated_data_has_the_shape_it_claims(tmp_path):
    """Long tails, MovieLens' shortest history, every item at every size, the same file for the same seed."""
    file = generate.write(tmp_path, "made", 60_000, seed=3)
    assert [path.name for path in file.parent.iterdir()] == ["made.inter"], "a part of the file is left"
    header, *lines = file.read_text().splitlines()
    assert header == "user_id:token\titem_id:token\ttimestamp:float" and len(lines) == 60_000
    users, items, times = np.array([line.split("\t") for line in lines], dtype=np.int64).T
    lengths, popularity = np.bincount(users), np.bincount(items, minlength=generate.ITEMS)
    assert len(lengths) == round(generate.USERS * 60_000 / generate.INTERACTIONS)
    assert lengths.min() >= generate.SHORTEST and lengths.mean() > 1.5 * np.median(lengths)
    assert len(popularity) == generate.ITEMS and popularity.min() == 1 and popularity.max() > 50
    assert (np.diff(times)[np.diff(users) == 0] == 1).all()
    again = generate.write(tmp_path, "again", 60_000, seed=3)
    assert again.read_text() == file.read_text()
    assert generate.write(tmp_path, "other", 60_000, seed=4).read_text() != file.read_text()
    for name, size, problem in (("made", 60_000, "exists"), ("few", 1_000, "at least 27278")):
        with pytest.raises(UserError, match=problem):
            generate.write(tmp_path, name, size)


def test_whole_size_is_that_of_movielens():
    lengths = generate.history_lengths(generate.INTERACTIONS, np.random.default_rng(0))
    assert lengths.sum() == 20_000_263 and len(lengths) == 138_493 and lengths.min() == 20


def test_a_part_of_an_epoch_is_measured_as_a_part(toy):
    """Steps that were not trained may not count as trained, in targets or in the table."""
    whole, part = worker.measure(JOB), worker.measure({**JOB, "steps": 2})
    assert whole["steps"] == whole["steps_of_epoch"] == part["steps_of_epoch"] > part["steps"] == 2
    assert whole["targets"] == whole["rows"] == part["rows"] > part["targets"] > 0
    assert 0 < part["us_per_target"] < 1e6 * part["epochs"][0]
    row = scale.summarise({"interactions": 900, **part, "us_per_target": 2e6})
    assert row["epoch_s"] == 2 * part["rows"]
    shown = scale.as_text([row, {**row, "us_per_target": 2.5e6}])
    assert f"| 2 of {part['steps_of_epoch']} |" in shown and "| 1.25 |" in shown


def test_a_rival_stops_when_it_is_as_good_as_stock_or_out_of_time(toy):
    points = worker.curve({**JOB, "curve": True, "epochs": 3})
    assert len(points) == 3 and points[0]["seconds"] < points[1]["seconds"]
    assert len(worker.curve({**JOB, "epochs": 3, "reach": points[0]["ndcg@10"]})) == 1
    assert len(worker.curve({**JOB, "epochs": 3, "seconds": 0})) == 1


def test_time_to_reach_is_read_off_the_curves():
    def points(*pairs):
        return [{"seconds": seconds, "ndcg@10": score} for seconds, score in pairs]

    curves = {
        reach.STOCK: points((10, 0.1), (20, 0.3), (30, 0.3), (40, 0.2)),
        "fast": points((1, 0.2), (2, 0.31)),
        "hopeless": points((15, 0.1), (25, 0.2)),
    }
    assert reach.as_text(curves).splitlines()[2:] == [
        f"| {reach.STOCK} | 0.3000 | 20.0 | 1.000 | 2 |",
        "| fast | 0.3100 | 2.0 | 0.100 | 2 |",
        "| hopeless | 0.2000 | not reached | – | 2 |",
    ]


def test_a_stand_in_runs_at_stocks_pace():
    """Its own seconds are none of stock's, and stock validates after every epoch too."""
    points = [{"seconds": 1.0, "ndcg@10": 0.1}, {"seconds": 2.0, "ndcg@10": 0.3}]
    assert reach.paced(points, {"epochs": [7.0, 9.0, 8.0], "validate": 2.0}) == [
        {"seconds": 10.0, "ndcg@10": 0.1},
        {"seconds": 20.0, "ndcg@10": 0.3},
    ]


def test_processes_are_compared_seed_by_seed():
    found = processes.summarise({1: [0.1, 0.2], 2: [0.12, 0.16]})
    assert found["one"] == pytest.approx(0.15) and found["difference"] == pytest.approx(-0.01)
    assert found["spread_one"] == pytest.approx(0.0707, abs=1e-4)


@pytest.mark.campaign
def test_speed_and_inference_run_and_write_their_results(toy, monkeypatch, capsys):
    wanted = ["none, all positions", "AsarRec, all positions"]
    arguments = ["speed", "--dataset=toy", "--rounds=1", "-o", "speed.json", "--only", *wanted]
    monkeypatch.setattr("sys.argv", ["python", *arguments])
    assert main(arguments) == 0
    result = json.loads((toy / "speed.json").read_text())
    assert set(result["contenders"]) == set(wanted) and result["machine"]["cores"] >= 1
    assert result["ratios"]["AsarRec ÷ none, all positions"]["median"] > 0
    assert "none, all positions" in capsys.readouterr().out

    arguments = ["inference", "--dataset=toy", "--rounds=2", "-o", str(toy / "inference.json")]
    monkeypatch.setattr("sys.argv", ["python", *arguments])
    assert main(arguments) == 0
    assert json.loads((toy / "inference.json").read_text())["ratio"] > 0
    assert Path.cwd() == toy  # not the folder that RecBole's logs went to, which is gone


def test_mistakes_get_one_sentence(toy, capsys):
    assert main(["speed", "--dataset=toy", "--only", "nobody"]) == 2
    assert "There is no contender 'nobody'" in capsys.readouterr().err
    assert main(["speed", "--dataset=toy", "--sample=0"]) == 2
    assert "--sample must be above 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    "kind", ["speed", "inference", "recommend", "warm_start", "reach", "processes", "scale", "reliability"]
)
@pytest.mark.parametrize(
    ("output", "said"), [(".", "is a folder; name a .json file"), ("no/out.json", "there is no folder for")]
)
def test_an_output_that_cannot_be_written_is_refused_before_the_work(workplace, capsys, kind, output, said):
    with pytest.raises(SystemExit) as ended:
        main([kind, "-o", output])
    assert ended.value.code == 2 and said in capsys.readouterr().err


def test_a_result_names_its_command_and_machine(workplace, monkeypatch):
    monkeypatch.setattr("sys.argv", ["__main__.py", "speed", "-o", "an out.json"])
    common.save(None, {"figure": 1})
    assert not list(workplace.iterdir())
    common.save(workplace / "out.json", {"figure": 1})
    kept = json.loads((workplace / "out.json").read_text())
    assert kept["command"] == "python -m benchmarks speed -o 'an out.json'"
    assert kept["figure"] == 1 and kept["machine"]["torch"] == torch.__version__


def test_recommend_is_measured_beside_the_loop_and_the_product(toy, monkeypatch, capsys):
    """Both ways must find the same items, or their times say nothing."""
    with recommend._elsewhere() as folder:
        setting = recommend.Setting("toy", str(toy / "dataset"))
        source = setting.write(folder, 200)
        assert len(source.read_text().splitlines()) == 200
        assert recommend.plain_loop(setting, source, folder / "plain.jsonl") > 0
        assert recommend.bare_product(setting) > 0
        plain = [json.loads(line) for line in (folder / "plain.jsonl").read_text().splitlines()]
        checkpoint.write(setting.state, folder / "model.pth")
        histories = [json.loads(line)["history"] for line in source.read_text().splitlines()]
        for found, one in zip(plain, Recommender(folder / "model.pth").stream(histories), strict=True):
            assert found["scores"] == pytest.approx(one.scores, abs=1e-4)
    assert Path.cwd() == toy


def test_a_command_is_measured_with_its_processes(workplace):
    """A child that holds 200 MB for a while counts, and a command that fails is an error."""
    holds = "import time; kept = bytearray(200 << 20); time.sleep(1)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {holds!r}])"
    seconds, peak = recommend.run_command([sys.executable, "-c", parent])
    assert seconds > 1 and 200 < peak < 400
    with pytest.raises(UserError, match="The command failed: no"):
        recommend.run_command([sys.executable, "-c", "import sys; sys.exit('no')"])


def test_what_a_history_costs_is_free_of_starting():
    rounds = [
        {"plain_s": 8e-4, "command_s": 2e-4, "product_s": 1e-4, "many_s": 30, "few_mib": 1, "many_mib": 2},
        {"plain_s": 6e-4, "command_s": 3e-4, "product_s": 1e-4, "many_s": 20, "few_mib": 1, "many_mib": 2},
        {"plain_s": 6e-4, "command_s": 2e-4, "product_s": 1e-4, "many_s": 10, "few_mib": 3, "many_mib": 4},
    ]
    summary = recommend.summarise(rounds)
    assert summary["plain_by_command"] == pytest.approx(3) and summary["command_by_product"] == pytest.approx(
        2
    )
    assert summary["us_per_history"]["plain"] == pytest.approx(600) and summary["seconds_for_all"] == 20
    text = recommend.as_text(summary, 1000)
    assert (
        "| `recommend`, 1,000 histories | 200.0 | 2.00 | 2 |" in text
        and "Plain loop ÷ `recommend`: 3.00" in text
    )


def test_the_data_of_before_is_a_part_of_that_of_now(toy):
    """A tenth of the users is missing, half of the others ends two interactions early, the rest is whole."""
    sizes = warm_start.write_before(toy / "dataset", toy / "old", "toy", seed=0)
    now, before = (
        [line.split("\t") for line in (toy / part / "toy" / "toy.inter").read_text().splitlines()[1:]]
        for part in ("dataset", "old")
    )
    assert sizes == {"before": len(before), "now": len(now)}
    users = {user: [row for row in now if row[0] == user] for user, _, _ in now}
    missing = {user: len(rows) - sum(row[0] == user for row in before) for user, rows in users.items()}
    for user, rows in users.items():
        assert [row for row in before if row[0] == user] == rows[: len(rows) - missing[user]]
    gone = [user for user, rows in users.items() if missing[user] == len(rows)]
    assert 0 < len(gone) < 20 and 25 < sum(count == 2 for count in missing.values()) < 50
    assert all(missing[user] in (0, 2) for user in users if user not in gone)


def test_a_warm_start_is_measured_and_written(toy, monkeypatch, capsys):
    arguments = ["warm_start", "--dataset=toy", "--rounds=1", "--epochs=2", "-o", "warm.json"]
    monkeypatch.setattr("sys.argv", ["python", *arguments])
    assert main(arguments) == 0
    result = json.loads((toy / "warm.json").read_text())
    (one,) = result["rounds"]
    assert one["warm"]["items"]["kept"] > 20 and one["fresh"]["items"] is None
    assert one["warm"]["epochs"] == 2 and 0 < one["warm"]["seconds_to_best"] <= one["warm"]["seconds"]
    assert result["time_share"] == pytest.approx(one["warm"]["seconds"] / one["fresh"]["seconds"])
    assert result["warm_test"] == one["warm"]["test"]
    shown = capsys.readouterr().out
    assert "| from the checkpoint of before, test |" in shown and "Share of the time:" in shown


def test_a_score_is_reached_at_its_first_time():
    curve = [{"seconds": 1, "score": 0.1}, {"seconds": 2, "score": 0.3}, {"seconds": 3, "score": 0.2}]
    assert warm_start.seconds_to(curve, 0.2) == 2 and warm_start.seconds_to(curve, 0.4) is None


def test_a_dataset_that_cannot_be_cut_is_refused(workplace, capsys):
    """RecBole would train on the whole of it both times."""
    assert main(["warm_start", "--dataset=ml-100k"]) == 2
    assert "RecBole always reads its own copy of ml-100k" in capsys.readouterr().err
    assert main(["warm_start", "--dataset=nothing"]) == 2
    assert "There is no file" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_measurement_has_help(command, capsys):
    """argparse formats help lines with %: a name with a per cent sign once broke the help of ``bound``."""
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    assert command in capsys.readouterr().out
