"""What a newcomer sees of a run: settings that hold, a line an epoch, one table, what to type next."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT

from recbole_asarrec.cli import summary
from recbole_asarrec.cli.train import check_keys
from recbole_asarrec.errors import ConfigError

RUN = ROOT / "run_recbole.py"
KEYS = ("--dataset=toy", "--hidden_size=16", "--inner_size=16", "--n_layers=1", "--n_heads=1", "--epochs=3")


@pytest.fixture
def shown(toy):
    done = subprocess.run(
        [sys.executable, str(RUN), *KEYS], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


def test_the_console_says_what_ran_and_what_to_type_next(shown, toy):
    out = shown.stdout
    assert shown.stderr == "", "third-party warnings and RecBole's own log stay off the console"
    assert re.search(r"^AsarSASRec on toy: 80 users, 30 items, \d+ interactions$", out, re.M)
    settings = re.search(r"^Settings: (.*)$", out, re.M)[1]
    assert "auto" not in settings and "learning_rate 0.004" in settings
    assert len(re.findall(r"^epoch +\d+ .* loss .* validation NDCG@10 ", out, re.M)) == 3
    assert re.search(r"^ +HR@10 +HR@20 +NDCG@10 +NDCG@20$", out, re.M)
    for part in ("validation", "test"):
        assert re.search(rf"^{part}( +[01]\.\d{{4}}){{4}}$", out, re.M)
    log = Path(re.search(r"^Log: (.*)$", out, re.M)[1])
    assert "train_batch_size" in log.read_text(encoding="utf-8"), "RecBole's configuration is in the log file"


def test_the_command_that_is_shown_recommends(shown):
    command = re.search(r"^Recommend: (.*)$", shown.stdout, re.M)[1]
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and '"items": ["i' in done.stdout, done.stderr


def test_a_table_is_aligned():
    rows = {"validation": {"hit@10": 0.5, "ndcg@10": 0.25}, "test": {"hit@10": 0.125, "ndcg@10": 1.0}}
    assert summary.table(rows).splitlines() == [
        "               HR@10   NDCG@10",
        "validation    0.5000    0.2500",
        "test          0.1250    1.0000",
    ]


def test_numbers_agree_with_their_nouns():
    assert summary.count(1, "epoch") == "1 epoch" and summary.count(1000, "user") == "1,000 users"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--epochs=1", "--epochs=2"], "given more than once"),
        (["epochs=1"], "must be written as --key=value"),
        (["--epochs="], "must be written as --key=value"),
        (["--epochs", "1"], "must be written as --key=value"),
    ],
)
def test_words_that_recbole_would_skip_are_refused(words, says):
    with pytest.raises(ConfigError, match=says):
        check_keys(words)


@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT, which Windows has not")
def test_ctrl_c_says_how_to_resume(toy):
    command = [sys.executable, str(RUN), *KEYS[:-1], "--epochs=5000", "--stopping_step=5000"]
    # what is started in the background of a script ignores the signal, and so would the run
    heeds = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)} if os.name == "posix" else {}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes, **heeds) as run:
        for line in run.stdout:
            if line.startswith("epoch"):
                run.send_signal(2)
                break
        _, error = run.communicate(timeout=120)
    assert run.returncode == 130 and error.startswith("Stopped. Finished epochs are saved. Resume with: ")
    assert error.rstrip().endswith("--stopping_step=5000 --resume")
