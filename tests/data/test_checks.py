"""Bad input gets a sentence that names what is wrong and what to do: an error for our models, a warning for
stock ones where RecBole goes on.
"""

import contextlib
import re
import subprocess
import sys

import pytest
from helpers import ROOT, SMALL, STOCK
from recbole.quick_start import run_recbole

from recbole_asarrec.errors import DataError

HEADER = "user_id:token\titem_id:token\ttimestamp:float\n"
RUN = ROOT / "run_recbole.py"


def inter(folder, content, name="mine"):
    file = folder / "dataset" / name / f"{name}.inter"
    file.parent.mkdir(parents=True)
    file.write_text(content)


# what RecBole cannot read or use at all
UNREADABLE = [
    ("", {}, "is empty"),
    ("user_id\titem_id\ttimestamp\nu\ti\t1\n", {}, "'field:type'"),
    ("user_id:token,item_id:token\nu,i\n", {}, "'field:type'"),
    ("user_id:token\titem_id:word\nu\ti\n", {}, "'item_id:word'"),
    (HEADER, {}, "header and no rows"),
    (HEADER + "u\ti\t1\nu\tj\t2\n", {"user_inter_num_interval": "[5,inf)"}, "loosen user_inter_num_interval"),
]
# what RecBole takes, whether or not it can train on it
UNWISE = [
    ("user:token\titem_id:token\ttimestamp:float\nu\ti\t1\n", {}, "no column 'user_id'.*USER_ID_FIELD"),
    ("user_id:token\titem_id:token\nu\ti\n", {}, "no column 'timestamp'.*TIME_FIELD"),
    (HEADER + "u\ti\t1\nv\tj\t2\n", {}, "has one interaction"),
    (HEADER + "u\ti\t1\nu\tj\t2\nu\tk\t3\n", {}, "needs four interactions"),
    (HEADER + "u\ti\t1\n", {"load_col": {"inter": ["user_id", "item_id"]}}, "load_col leaves out.*timestamp"),
]


@pytest.mark.parametrize(
    ("model", "content", "keys", "says"),
    [("AsarSASRec", *case) for case in UNREADABLE + UNWISE] + [("SASRec", *case) for case in UNREADABLE],
)
def test_broken_atomic_files(workplace, model, content, keys, says):
    inter(workplace, content)
    stock = STOCK if model == "SASRec" else {}
    with pytest.raises(DataError, match=says):
        run_recbole(model=model, dataset="mine", config_dict={**SMALL, **stock, **keys})
    assert (workplace / "dataset" / "mine" / "mine.inter").read_text() == content


@pytest.mark.parametrize(("content", "keys", "says"), UNWISE)
def test_a_stock_model_is_warned_and_the_rest_is_recboles(workplace, caplog, content, keys, says):
    inter(workplace, content)
    with contextlib.suppress(Exception):
        run_recbole(
            model="SASRec", dataset="mine", config_dict={**SMALL, **STOCK, **keys, "state": "WARNING"}
        )
    assert [1 for record in caplog.records if re.search(says, record.getMessage())] == [1]


def test_no_such_dataset_names_the_folder(workplace):
    with pytest.raises(
        DataError, match=r"no dataset 'nowhere': the folder '.*dataset/nowhere' does not exist"
    ):
        run_recbole(model="AsarSASRec", dataset="nowhere", config_dict=dict(SMALL))


def test_a_folder_without_its_file_says_what_is_there(workplace):
    inter(workplace, HEADER, name="other")
    (workplace / "dataset" / "mine").mkdir()
    (workplace / "dataset" / "mine" / "wrong.inter").write_text(HEADER)
    with pytest.raises(DataError, match=r"mine\.inter' does not exist; the folder holds wrong\.inter"):
        run_recbole(model="AsarSASRec", dataset="mine", config_dict=dict(SMALL))


def test_a_mistake_on_the_command_line_gets_one_sentence_and_exit_code_2(toy):
    """In a process of its own; the other mistakes are tried within one, in test_bad_input.py."""
    command = [sys.executable, str(RUN), "--dataset=toy", "--temprature=1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("Error: ") and "did you mean 'temperature'" in last


def test_command_line_trains(toy):
    keys = [f"--{key}={value}" for key, value in {**SMALL, "state": "INFO", "epochs": 1}.items()]
    done = subprocess.run(
        [sys.executable, str(RUN), "--model=AsarSASRec", "--dataset=toy", *keys],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0 and "validation" in done.stdout and "NDCG@20" in done.stdout, done.stderr[
        -2000:
    ]
