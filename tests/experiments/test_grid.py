"""Grids: checked before they run, killed without loss, and the same whether broken off or not."""

import itertools
import json
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
import recbole
import torch
import yaml
from helpers import SMALL, build
from recbole.utils import get_trainer

from recbole_asarrec import ConfigError, DataError
from recbole_asarrec.__main__ import main
from recbole_asarrec.config.settings import AUGMENTATIONS
from recbole_asarrec.experiments import run as lab_run
from recbole_asarrec.experiments.grid import check, expand, read_grid
from recbole_asarrec.experiments.on_ray import cpus_for_each, has_ray, over_ray
from recbole_asarrec.experiments.ranks import metrics, rank_targets, rank_test_items
from recbole_asarrec.experiments.records import MAX_RANK, RUNS, Record, Spec, append, pack, read, unpack
from recbole_asarrec.experiments.run import configure
from recbole_asarrec.experiments.runner import CHECKPOINTS, cores, finished, run_all, run_in_parallel, run_one
from recbole_asarrec.experiments.tune import draw_trials, search_space
from recbole_asarrec.files import Lock

GRID = """\
models: [AsarSASRec]
augmentations: [none, asar]
datasets: [movies]
noise_ratios: [0, 0.2]
seeds: [1, 2, 3]
common:
  training: all_positions
  epochs: 2
  hidden_size: 16
  inner_size: 32
  n_layers: 1
  n_heads: 1
"""

needs_ray = pytest.mark.skipif(not has_ray(), reason="Ray does not import here; get it by: pip install ray")


def sample_of_ml_100k(folder: Path) -> None:
    source = Path(recbole.__file__).parent / "dataset_example/ml-100k/ml-100k.inter"
    header, *lines = source.read_text().splitlines()
    (folder / "dataset" / "movies").mkdir(parents=True)
    kept = [line for line in lines if int(line.split("\t")[0]) % 12 == 0]
    (folder / "dataset/movies/movies.inter").write_text("\n".join([header, *kept]) + "\n")


@pytest.fixture
def movies(workplace):
    sample_of_ml_100k(workplace)
    (workplace / "grid.yaml").write_text(GRID)
    return workplace


def without_time(record: Record) -> str:
    """A record less what no two runs share."""
    plain = json.loads(record.to_json())
    for name in ("seconds", "peak_gib", "machine"):
        plain.pop(name)
    for entry in plain["curve"]:
        entry.pop("seconds")
    return json.dumps(plain, sort_keys=True)


@pytest.mark.campaign
def test_a_killed_grid_goes_on_to_the_same_results(movies):
    """Two methods, clean and with 20 % noise; a kill in the middle costs nothing but time."""
    runs = 4
    Path("grid.yaml").write_text(GRID.replace("[1, 2, 3]", "[1]"))
    command = [sys.executable, "-m", "recbole_asarrec", "grid", "--grid", "grid.yaml"]
    first = subprocess.Popen([*command, "-o", "broken"], stderr=subprocess.DEVNULL)
    results = movies / "broken" / RUNS
    while not results.exists() or results.read_text().count("\n") < runs // 2 - 1:
        assert first.poll() is None, "the grid ended before it could be killed"
        time.sleep(0.05)
    first.kill()
    first.wait()
    done_before = results.read_text().splitlines()
    assert runs // 2 - 1 <= len(done_before) < runs
    second = subprocess.run([*command, "-o", "broken"], capture_output=True, text=True)
    assert second.returncode == 0, second.stderr[-2000:]
    assert results.read_text().splitlines()[: len(done_before)] == done_before, "a finished run was repeated"

    specs = expand(read_grid("grid.yaml"))
    records, failures = run_all(specs, movies / "whole", {"data_path": str(movies / "dataset")})
    broken = finished(movies / "broken")
    assert not failures and len(records) == len(broken) == runs
    assert [record.spec.run for record in read(movies / "whole")] == [spec.run for spec in specs]
    for run, record in records.items():
        assert without_time(record) == without_time(broken[run])
    assert "| movies | AsarSASRec | asar | 0.2 | 1 |" in second.stdout
    prints = {record.noise["fingerprint"] for record in records.values() if record.noise}
    assert len(prints) == 1 and len({record.users for record in records.values()}) == 1


def test_seconds_of_a_broken_run_are_those_of_all_its_epochs(movies, monkeypatch):
    """Or the table of times would praise the run that was interrupted last."""
    clock = itertools.count(0, 1000)  # an epoch takes a thousand seconds
    monkeypatch.setattr("recbole_asarrec.compat.resume.perf_counter", clock.__next__)
    spec, keys = expand(read_grid("grid.yaml"))[0], {"data_path": str(movies / "dataset")}

    def interrupt(entry):
        if entry["epoch"] == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab_run.run(spec, movies / "broken", keys, each_epoch=interrupt)
    record = lab_run.run(spec, movies / "broken", keys)
    assert [entry["seconds"] for entry in record.curve] == [1000, 1000]
    assert 1000 < record.seconds < 2000


@pytest.mark.parametrize("ray", [False, pytest.param(True, marks=needs_ray)])
def test_runs_side_by_side_are_the_runs_one_by_one(movies, monkeypatch, ray):
    """`--jobs 2` shares the cores between two processes, Ray's or ours, and shows the epochs of both.

    A failure stops nothing else.
    """
    monkeypatch.setattr("recbole_asarrec.experiments.on_ray.has_ray", lambda: ray)
    shown = []
    monkeypatch.setattr(
        "recbole_asarrec.experiments.runner._show",
        lambda bar, spec, entry: shown.append((spec.run, entry["epoch"])),
    )
    specs = expand(read_grid("grid.yaml"))[:2]
    broken = Spec("AsarSASRec", "nowhere", 1, {})
    keys = {"data_path": str(movies / "dataset")}
    both, failures = run_all([*specs, broken], movies / "both", keys, jobs=2)
    assert len(failures) == 1 and "nowhere" in str(failures[0])
    assert sorted(shown) == sorted((run, entry["epoch"]) for run in both for entry in both[run].curve)
    for spec in specs:  # on as many threads, or the last digits differ
        alone = run_one(spec, movies / "alone", keys, threads=max(cores() // 2, 1))
        assert without_time(alone) == without_time(both[spec.run])


@pytest.mark.parametrize("jobs", [2, 3])
@pytest.mark.parametrize("spread", [run_in_parallel, pytest.param(over_ray, marks=needs_ray)])
def test_as_many_runs_at_once_as_asked_for(tmp_path, spread, jobs):
    """Two were asked for and Ray started three, later more; three on two cores were two.

    A run waits here as for a busy queue, and Ray lends its CPU to others meanwhile.
    """
    line, folder, with_ray = record_of(1).to_json(), str(tmp_path), spread is over_ray

    def wait():
        if with_ray:
            import ray

            with suppress(ray.exceptions.GetTimeoutError):
                ray.get(ray.remote(num_cpus=1000)(lambda: None).remote(), timeout=0.5)
        else:
            time.sleep(0.5)

    def work(spec, each_epoch, threads=None):
        began = time.time()
        for epoch in range(2):
            wait()
            each_epoch({"epoch": epoch})
        Path(folder, str(spec.seed)).write_text(json.dumps([began, time.time()]))
        return Record.from_json(line)

    shown = []
    specs = [Spec("AsarSASRec", "toy", seed, {}) for seed in range(3 * jobs)]
    outcomes = list(spread(specs, work, jobs, lambda spec, entry: shown.append((spec.seed, entry["epoch"]))))
    assert all(isinstance(outcome, Record) for _, outcome in outcomes), outcomes
    assert {spec.run for spec, _ in outcomes} == {spec.run for spec in specs}
    assert len(set(shown)) == 2 * len(specs)
    times = [json.loads(path.read_text()) for path in tmp_path.iterdir()]
    at_once = [sum(began <= moment < ended for began, ended in times) for moment, _ in times]
    assert max(at_once) == jobs


@pytest.mark.parametrize(
    ("machines", "jobs", "cpus"),
    [([2], 2, 1), ([8], 3, 2), ([2], 4, 0.5), ([2], 3, 0.5), ([3, 1], 2, 1), ([8, 8], 2, 8), ([0, 4], 2, 2)],
)
def test_each_run_has_cpus_that_fit_on_its_machine(machines, jobs, cpus):
    """A share that no machine has left would keep the last run waiting."""
    assert cpus_for_each(machines, jobs) == cpus


@pytest.mark.parametrize("methods", [["forkserver", "spawn"], ["spawn"]], ids=["forkserver", "spawn"])
def test_a_run_ends_with_the_process_that_started_it(movies, methods):
    """Killed, a grid must not leave runs behind that hold the cores, and the locks of the next one."""
    Path("grid.py").write_text(ENDLESS_RUN)
    command = [sys.executable, "grid.py", str(movies / "dataset"), *methods]
    parent = subprocess.Popen(command)
    while not list(Path("home").glob("*.run")):
        assert parent.poll() is None, "the run ended before its parent could be killed"
        time.sleep(0.05)
    children = psutil.Process(parent.pid).children(recursive=True)
    parent.kill()
    parent.wait()
    _, alive = psutil.wait_procs(children, timeout=20)
    for child in alive:
        child.kill()
    assert children and not alive


# without validation it has nothing to tell, and does not find out by itself that nobody listens
ENDLESS_RUN = f"""
import multiprocessing, sys
from pathlib import Path
from recbole_asarrec.experiments.records import Spec
from recbole_asarrec.experiments.worker import start

if __name__ == "__main__":
    _, data, *methods = sys.argv
    multiprocessing.get_all_start_methods = lambda: methods
    Path("home").mkdir()
    spec = Spec("AsarSASRec", "movies", 1, {{**{SMALL!r}, "epochs": 10**6, "eval_step": 10**6}})
    list(start(spec, Path("home").absolute(), {{"data_path": data}}, False, 1))
"""


def test_an_expanded_grid(movies):
    """Seeds turn slowest; stock models have one run whatever the augmentations; entries carry own keys."""
    Path("grid.yaml").write_text(
        "models: [AsarSASRec, SASRec]\naugmentations: [none, {augmentation: mask, temperature: 0.5}]\n"
        "datasets: [movies]\nseeds: [1, 2]\nsweep: {learning_rate: [0.1, 0.2]}\ncommon: {epochs: 3}\n"
    )
    specs = expand(read_grid("grid.yaml"))
    assert [spec.seed for spec in specs] == [1] * 6 + [2] * 6
    assert [spec.augmentation for spec in specs[:6]] == ["none", "none", "mask", "mask", "none", "none"]
    assert specs[2].keys == {"epochs": 3, "augmentation": "mask", "temperature": 0.5, "learning_rate": 0.1}
    assert specs[4].model == "SASRec" and "augmentation" not in specs[4].keys
    check(read_grid("grid.yaml"), "dataset")


def test_what_stops_a_campaign_is_not_waited_for():
    """The disk is full, say: no run's failure, so it must reach the user instead of a thread's end."""

    def work(spec, each_epoch):
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space left"):
        list(run_in_parallel([Spec("AsarSASRec", "movies", 1, {})], work, jobs=2, show=print))


def test_runs_that_differ_by_a_key_say_so(movies, capsys):
    Path("grid.yaml").write_text(
        "models: [AsarSASRec]\naugmentations: [mask, {augmentation: mask, temperature: 0.5}]\n"
        "datasets: [movies]\nseeds: [1]\ncommon: {epochs: 3}\n"
    )
    main(["grid", "--grid", "grid.yaml", "--list"])
    plain, own = (line.partition("  ")[2] for line in capsys.readouterr().out.splitlines())
    assert plain == "AsarSASRec mask movies seed 1" and own == "AsarSASRec mask movies seed 1 temperature 0.5"


def test_settings_are_chosen_without_the_test_data(movies, capsys):
    """And what was made so cannot pass for results."""
    Path("grid.yaml").write_text(
        "models: [AsarSASRec]\ndatasets: [movies]\nseeds: [1]\ncommon: {epochs: 1}\n"
    )
    command = ["grid", "--grid", "grid.yaml", "-o", "chosen"]
    main([*command, "--validation"])
    (record,) = read(Path("chosen"))
    assert record.valid and not record.test and not record.ranks
    assert not list(Path("chosen").rglob("*.pth"))
    assert main(command) == 2
    assert "holds runs of this grid without test figures" in capsys.readouterr().err


def test_tuned_keys_go_to_their_method(movies):
    Path("winners.yaml").write_text(
        "- {model: AsarSASRec, augmentation: asar, dataset: movies, keys: {temperature: 0.7}}\n"
    )
    Path("grid.yaml").write_text(GRID + "tuned: winners.yaml\n")
    for spec in expand(read_grid("grid.yaml")):
        assert spec.keys.get("temperature") == (0.7 if spec.augmentation == "asar" else None)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("AsarSASRec", "AsarSASRek", r"line 1: .*AsarSASRek"),
        ("[none, asar]", "[none, azar]", r"line 2: the key 'augmentation' must be .*azar"),
        ("[movies]", "[movies, nowhere]", r"line 3: there is no dataset 'nowhere'"),
        ("[0, 0.2]", "[0, 2]", r"line 4: the key 'noise_ratio' must be .*but is 2"),
        ("[0, 0.2]", "[]", r"line 4: the list is empty"),
        ("[1, 2, 3]", "[1, x]", r"line 5: a seed must be"),
        ("[1, 2, 3]", "7", r"line 5: a list must stand here"),
        ("epochs: 2", "epoch: 2", r"line 8: there is no configuration key 'epoch'.*did you mean 'epochs'"),
        ("common:", "comon:", r"line 6: there is no part 'comon' \(did you mean 'common'\?\)"),
        ("seeds: [1, 2, 3]\n", "", r"must have the part 'seeds'"),
        ("seeds: [1, 2, 3]", "seeds: [1]\nseeds: [2]", r"the key 'seeds' twice, in lines 5 and 6"),
        (GRID, "[1, 2]", r"line 1: keys with values"),
        (GRID, "a: [", r"is not valid YAML"),
        (GRID, "", r"line 1: keys with values"),
        ("[none, asar]", "[!!python/name:os.system ]", r"line 2 may hold plain values only"),
        (GRID, GRID + "tuned: nothing.yaml\n", r"line 13: the file '.*nothing.yaml' does not exist"),
        ("[1, 2, 3]", f"{list(range(400))}\nsweep: {{epochs: {list(range(100))}}}", r"160,000 runs"),
    ],
)
def test_a_wrong_grid_stops_before_the_first_run(movies, capsys, old, new, sentence):
    """With the line of the file, so that nobody looks for it."""
    Path("grid.yaml").write_text(GRID.replace(old, new))
    assert main(["grid", "--grid", "grid.yaml"]) == 2
    assert re.search(sentence, capsys.readouterr().err)
    assert not Path("results").exists()


def record_of(seed: int) -> Record:
    ranks = {"all_items": np.arange(1, 6), "unseen_items": np.ones(5)}
    curve = [{"epoch": 0, "seconds": 1.0, "losses": [1.0], "valid": {"ndcg@10": 0.5}}]
    test = {name: metrics(one, [10]) for name, one in ranks.items()}
    return Record(
        Spec("SASRec", "toy", seed), {}, {}, None, curve, 0, {"ndcg@10": 0.5}, test, ranks, "u", 1.0, 0.1
    )


def test_records_come_back(tmp_path):
    append(record_of(1), tmp_path)
    append(record_of(2), tmp_path)
    first, second = read(tmp_path)
    assert (first.spec.seed, second.spec.seed) == (1, 2) and first.spec.run != second.spec.run
    assert np.array_equal(first.ranks["all_items"], np.arange(1, 6))
    assert first.to_json() == record_of(1).to_json()


@pytest.mark.parametrize("share", [0.01, 0.5, 0.999])
def test_a_line_that_was_cut_off_is_passed_over_and_removed(tmp_path, caplog, share):
    append(record_of(1), tmp_path)
    whole = (tmp_path / RUNS).read_bytes()
    (tmp_path / RUNS).write_bytes(whole + whole[: int(len(whole) * share)])
    assert len(read(tmp_path)) == 1 and "was cut off" in caplog.text
    append(record_of(2), tmp_path)
    assert [record.spec.seed for record in read(tmp_path)] == [1, 2]


def test_a_full_disk_leaves_the_finished_runs_whole(tmp_path, monkeypatch):
    append(record_of(1), tmp_path)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DataError, match="could not be added .*No space left"):
            append(record_of(2), tmp_path)
    assert [record.spec.seed for record in read(tmp_path)] == [1]


def test_a_broken_line_is_named(tmp_path):
    append(record_of(1), tmp_path)
    with open(tmp_path / RUNS, "a") as file:
        file.write("{}\n")
    with pytest.raises(DataError, match="Line 2 of"):
        read(tmp_path)
    with pytest.raises(DataError, match="holds no results"):
        read(tmp_path / "elsewhere")


def test_ranks_pack_small_and_come_back():
    """To the last rank that any metric looks at; those beyond are told to be beyond."""
    ranks = np.random.default_rng(0).integers(1, 12_000, 22_363)
    back = unpack(pack(ranks))
    near = ranks <= MAX_RANK
    assert np.array_equal(back[near], ranks[near]) and (back[~near] == MAX_RANK + 1).all() and near.any()
    assert len(pack(ranks)) < len(ranks) / 2


def test_ranks_by_definition():
    """Against sorting; a target in the history still counts, padding never does."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(40, 25, generator=generator)
    targets = torch.randint(1, 25, (40,), generator=generator)
    owned = torch.rand(40, 25, generator=generator) < 0.3
    owned[torch.arange(40), targets] = False
    everywhere, unseen = rank_targets(scores.clone(), targets, owned.nonzero(as_tuple=True))
    for row in range(40):
        ordered = [item for item in scores[row].argsort(descending=True).tolist() if item != 0]
        assert everywhere[row] == ordered.index(targets[row]) + 1
        left = [item for item in ordered if not owned[row, item]]
        assert unseen[row] == left.index(targets[row]) + 1


@pytest.mark.parametrize("model", ["AsarSASRec", "SASRec"])
def test_metrics_from_ranks_are_recboles(toy, model):
    """Both protocols of one pass equal RecBole's evaluator run once for each."""
    for excluded, protocol in ((False, "all_items"), (True, "unseen_items")):
        config, data, network = build(
            model,
            exclude_history=excluded,
            train_neg_sample_args=None,
            topk=[3, 10],
            metrics=["Hit", "NDCG"],
            valid_metric="NDCG@10",
            metric_decimal_place=12,
        )
        trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, network)
        trainer.eval_collector.data_collect(data[0])
        expected = trainer.evaluate(data[2], load_best_model=False)
        found = metrics(rank_test_items(network, data[2]).ranks[protocol], [3, 10])
        assert found == pytest.approx(dict(expected), abs=1e-9)


def test_a_run_that_fails_is_said_and_the_others_go_on(movies):
    specs = [
        Spec("AsarSASRec", "movies", 1, {**SMALL, "epochs": 1, "user_inter_num_interval": "[9999,inf)"}),
        Spec("AsarSASRec", "movies", 1, {**SMALL, "epochs": 1}),
    ]
    records, failures = run_all(specs, movies / "results", {"data_path": str(movies / "dataset")})
    assert len(failures) == 1 and "No interaction" in str(failures[0])
    assert list(records) == [specs[1].run]


def test_unknown_grid_files_are_named(workplace):
    with pytest.raises(ConfigError, match="grid file 'none.yaml' does not exist"):
        read_grid("none.yaml")


def test_tuning_reads_validation_alone_and_gives_equal_budgets(movies, capsys):
    """RecBole's own tuning reports test figures; here a trial has none to report."""
    Path("grid.yaml").write_text(
        GRID.replace("[none, asar]", "[none, mask]").replace("epochs: 2", "epochs: 1")
    )
    assert main(["tune", "--grid", "grid.yaml", "--trials", "2"]) == 0
    trials = read("tuning")
    assert len(trials) == 4 and all(not trial.test and not trial.ranks for trial in trials)
    assert {trial.spec.seed for trial in trials} == {1} and {trial.noise is None for trial in trials} == {
        True
    }
    winners = yaml.safe_load(Path("tuning/winners.yaml").read_text())
    assert [(one["augmentation"], one["trials"]) for one in winners] == [("none", 2), ("mask", 2)]
    for one in winners:
        scores = [t.valid["ndcg@10"] for t in trials if t.spec.augmentation == one["augmentation"]]
        assert one["valid"]["ndcg@10"] == max(scores)
    assert "Winners: tuning/winners.yaml" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["tune", "grid"])
def test_ctrl_c_says_that_the_same_command_resumes(movies, capsys, monkeypatch, command):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    Path("grid.yaml").write_text(GRID)
    monkeypatch.setattr(
        f"recbole_asarrec.{'cli.grid' if command == 'grid' else 'experiments.tune'}.run_all", interrupted
    )
    assert main([command, "--grid", "grid.yaml"]) == 130
    assert "The same command resumes." in capsys.readouterr().err


@pytest.mark.parametrize("command", [["tune"], ["grid"]])
def test_no_runs_at_once_are_refused(movies, capsys, command):
    Path("grid.yaml").write_text(GRID)
    assert main([*command, "--grid", "grid.yaml", "--jobs", "0"]) == 2
    assert "--jobs must be at least 1, but is 0." in capsys.readouterr().err


def test_a_second_grid_in_the_same_folder_is_refused(movies, capsys):
    """It would train what the first is training, and remove the first's checkpoints."""
    lock = Lock(movies / "results" / CHECKPOINTS)
    (movies / "results").mkdir()
    assert lock.acquire(wait=False)
    assert main(["grid", "--grid", "grid.yaml"]) == 2
    assert "Another process is running a grid in 'results'" in capsys.readouterr().err
    assert not (movies / "results" / RUNS).exists()
    lock.release()
    folder = Path("results")
    assert run_all([], folder, {}) == ({}, []) and list(folder.iterdir()) == []


def test_trials_are_different_and_begin_with_the_first_values():
    space = {"a": [1, 2, 3], "b": [1, 2]}
    drawn = draw_trials(space, 4)
    assert drawn[0] == {"a": 1, "b": 1} and len({str(one) for one in drawn}) == 4
    assert len(draw_trials(space, 99)) == 6


@pytest.mark.parametrize("method", ["cl4srec", "asar", "none"])
def test_as_many_trials_as_a_key_has_values_try_them_all(method):
    """Five trials drawn blindly left CL4SRec's larger weights out."""
    space = search_space(Spec("AsarSASRec", "ml-100k", 1, {"augmentation": method}))
    drawn = draw_trials(space, max(map(len, space.values())))
    for key, values in space.items():
        assert {one[key] for one in drawn} == set(values)


@pytest.mark.parametrize("augmentation", [*AUGMENTATIONS, ["insert", "mask"]])
@pytest.mark.parametrize("model", ["AsarSASRec", "AsarGRU4Rec", "AsarFMLPRec"])
def test_every_point_of_every_search_space_is_a_configuration(workplace, model, augmentation):
    """A trial that fails after an hour is an hour lost."""
    method = Spec(model, "ml-100k", 1, {"augmentation": augmentation})
    for key, values in search_space(method).items():
        for value in values:
            assert configure(Spec(model, "ml-100k", 1, {**method.keys, key: value}))[key] == value
