"""No recorded figure may be without its command, and one that is older than its code must be called so."""

import argparse
import importlib
import json
import shlex
import subprocess

import pytest
from helpers import ROOT

from benchmarks import figures
from recbole_asarrec.errors import UserError

EVERY = figures.read_figures()


def test_every_recorded_file_and_grid_is_listed():
    here = ROOT / "benchmarks"
    recorded = {path.name for path in here.glob("*.json")}
    recorded |= {f"results/{folder.name}" for folder in (here / "results").iterdir()}
    assert recorded <= {one.makes for one in EVERY.values()}
    used = {grid for one in EVERY.values() for grid in one.grids}
    by_hand = " ".join(one.by_hand or "" for one in EVERY.values())
    assert {path.name for path in (here / "grids").glob("*.yaml") if path.name not in by_hand} == used


@pytest.mark.parametrize("file", sorted((ROOT / "benchmarks").glob("*.json")), ids=lambda file: file.stem)
def test_a_recorded_command_runs_on_any_machine(file):
    """A result that was copied from elsewhere once brought the paths of its machine along."""
    command = json.loads(file.read_text(encoding="utf-8")).get("command", "")
    assert not [word for word in shlex.split(command) if word.startswith(("/", "~"))]


@pytest.mark.parametrize("figure", EVERY.values(), ids=EVERY)
def test_what_it_names_exists(figure):
    assert bool(figure.measure) + bool(figure.grids) + bool(figure.by_hand) == 1
    for path in (*figure.code, *figure.shown):
        assert (ROOT / path).exists(), path
    if figure.measure:
        (words, *_) = figure.commands("data")
        parser = argparse.ArgumentParser()
        name, *rest = words[3:]
        module = importlib.import_module(
            importlib.import_module("benchmarks.__main__").MODULES.get(name, f"benchmarks.{name}")
        )
        module.add_arguments(parser)
        parser.parse_args(rest)
    for grid in figure.grids:
        assert figures.expand(figures.read_grid(figures._grid(grid)))


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A source tree with one file of code and one figure of it, under git."""

    def git(*words):
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        done = subprocess.run(
            ["git", *identity, *words], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "HERE", tmp_path)
    figures.changed_since.cache_clear()
    git("init", "-q")
    (tmp_path / "code.py").write_text("1\n")
    git("add", "-A")
    git("commit", "-qm", "first")
    yield tmp_path, git
    figures.changed_since.cache_clear()


def one_figure(**keys):
    return figures.Figure(
        "speed", "speed.json", ["code.py"], ["README.md"], 1, **{"measure": "speed", **keys}
    )


def test_a_figure_is_missing_then_current_then_stale(repository):
    folder, git = repository
    figure = one_figure()
    assert figures.state(figure) == "missing"
    commit = git("rev-parse", "--short", "HEAD")
    (folder / "speed.json").write_text(json.dumps({"machine": {"commit": f"{commit}+"}}))
    assert figures.state(figure) == "current"
    (folder / "other.py").write_text("2\n")
    git("add", "-A")
    git("commit", "-qm", "other code")
    figures.changed_since.cache_clear()
    assert figures.state(figure) == "current"
    (folder / "code.py").write_text("3\n")
    figures.changed_since.cache_clear()
    assert figures.state(figure) == "stale"


def test_a_commit_known_to_give_the_same_results_is_as_good(repository):
    folder, git = repository
    old = git("rev-parse", "--short", "HEAD")
    (folder / "code.py").write_text("1  # the same\n")
    git("commit", "-qam", "a comment")
    new = git("rev-parse", "--short", "HEAD")
    (folder / "speed.json").write_text(json.dumps({"machine": {"commit": old}}))
    assert figures.state(one_figure()) == "stale"
    assert figures.state(one_figure(equal={old: new})) == "current"


@pytest.mark.parametrize("commit", [None, "0123abc"])
def test_a_commit_that_is_not_known_is_stale(repository, commit):
    folder, _ = repository
    (folder / "speed.json").write_text(json.dumps({"machine": {"commit": commit}}))
    assert figures.state(one_figure()) == "stale"


def test_only_stale_runs_of_a_grid_are_made_again(repository, monkeypatch):
    """A current run's line stays as it is, byte for byte."""
    folder, git = repository
    (folder / "grids").mkdir()
    (folder / "grids" / "small.yaml").write_text(
        "models: [AsarSASRec]\ndatasets: [ml-100k]\naugmentations: [none]\nseeds: [1, 2, 3]\n"
    )
    figure = one_figure(measure=None, grids=["small.yaml"])._replace(makes="runs")
    old, new, _ = figure.wanted()
    commit = git("rev-parse", "HEAD")
    (folder / "runs").mkdir()  # as a grid leaves it that was killed in its first run
    assert figures.state(figure) == "0 of 3 runs"
    lines = [
        json.dumps({"run": run, "machine": {"commit": at}}) for run, at in ((old, "0123abc"), (new, commit))
    ]
    (folder / "runs" / "runs.jsonl").write_text("".join(f"{line}\n" for line in lines))
    assert figures.state(figure) == "2 of 3 runs, 1 of them stale"
    with open(folder / "runs" / "runs.jsonl", "a") as file:
        file.write(lines[0][:20])  # a crash cut it off
    assert figures.state(figure) == "2 of 3 runs, 1 of them stale"
    typed = []
    monkeypatch.setattr(figures.subprocess, "run", _recorder(typed, figures.subprocess.run))
    figures.make(figure, "data", stale=False)
    assert (folder / "runs" / "runs.jsonl").read_text().splitlines()[:2] == lines
    figures.make(figure, "data", stale=True)
    assert (folder / "runs" / "runs.jsonl").read_text() == f"{lines[1]}\n"
    assert [shlex.join(words).partition("grid ")[2] for words in typed] == 2 * [
        "--grid grids/small.yaml --data_path data --jobs 2 -o runs"
    ]


def _recorder(typed, run):
    def recorded(words, **options):
        if words[0] == "git":
            return run(words, **options)
        typed.append(words)
        return subprocess.CompletedProcess(words, 0)

    return recorded


def test_a_failed_command_is_named(repository, monkeypatch):
    failed = subprocess.CompletedProcess([], 3)
    monkeypatch.setattr(figures.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(UserError, match="speed: the command above ended with exit code 3"):
        figures.make(one_figure(), "data", stale=False)


def test_mistakes_are_named():
    with pytest.raises(UserError, match="no figure 'paper-art' .did you mean 'paper-arts'"):
        figures.run(argparse.Namespace(names=["paper-art"], make=False, stale=False))
    with pytest.raises(UserError, match="--stale is for --make"):
        figures.run(argparse.Namespace(names=[], make=False, stale=True))
