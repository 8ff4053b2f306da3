"""What people get wrong, tried: every broken input with the sentence they see and the exit code.

Each case goes through the command line's own ``main``. Whatever happens, no traceback is shown, no file that
was there before is changed, and no code from a file is run. Inputs that look odd and are fine are here too:
the table says that they work.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import pickle
import random
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from helpers import SMALL, write_atomic

from recbole_asarrec import Recommender
from recbole_asarrec.__main__ import main
from recbole_asarrec.training import checkpoint

SHORT = {**SMALL, "epochs": 1, "state": "WARNING"}
KEYS = [f"--{key}={value}" for key, value in SHORT.items() if key != "training"]  # the cases say how
HEADER = "user_id:token\titem_id:token\ttimestamp:float\n"


class Case(NamedTuple):
    """A broken input: what it is, how it is made, what is said (a pattern) and the exit code."""

    name: str
    make: Callable[[Path], list[str]]  # writes files into the folder and returns the arguments
    says: str = ""
    code: int = 2


def walk(users: int = 30, item: str = "i{}", user: str = "u{}", time: str = "{}", items: int = 30) -> str:
    """Rows of users who walk over a ring of items."""
    rows = [
        f"{user.format(u)}\t{item.format((u + t) % items)}\t{time.format(t)}\n"
        for u in range(users)
        for t in range(6)
    ]
    return "".join(rows)


def atomic(name: str, content: str | bytes, says: str = "", code: int = 2, keys: tuple = ()) -> Case:
    """``mine.inter`` with this content."""

    def make(folder: Path) -> list[str]:
        file = folder / "dataset" / "mine" / "mine.inter"
        file.parent.mkdir(parents=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return ["--dataset=mine", *keys]

    return Case(name, make, says, code)


def in_place(name: str, make: Callable[[Path], object], says: str, dataset: str = "mine") -> Case:
    """Something else where the data should be."""

    def made(folder: Path) -> list[str]:
        (folder / "dataset").mkdir()
        make(folder / "dataset")
        return [f"--dataset={dataset}"]

    return Case(name, made, says)


def argument(name: str, *arguments: str, says: str = "", code: int = 2) -> Case:
    """Good data and these arguments."""

    def make(folder: Path) -> list[str]:
        write_atomic(folder / "dataset", "toy")
        return ["--dataset=toy", *arguments]

    return Case(name, make, says, code)


def config(name: str, content: str | bytes, says: str = "", code: int = 2) -> Case:
    """Good data and this configuration file."""

    def make(folder: Path) -> list[str]:
        write_atomic(folder / "dataset", "toy")
        (folder / "my.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
        return ["--dataset=toy", "--config_files=my.yaml"]

    return Case(name, make, says, code)


def bomb(levels: int = 9) -> str:
    """Nine lines that stand for ten to the power of nine words."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines)


ONE = ("--topk=1", "--valid_metric=NDCG@1")
WINDOWS = ("--training=all_positions", "--MAX_ITEM_LIST_LENGTH=20")
LONG_USER = "".join(f"long\ti{t % 97}\t{t}\n" for t in range(100_000))
ATOMIC = [
    atomic("an empty file", "", "is empty"),
    atomic("blank lines alone", "\n\n\n", "is empty"),
    atomic("a header and no rows", HEADER, "header and no rows"),
    atomic("commas", HEADER.replace("\t", ",") + walk().replace("\t", ","), "'field:type'.*separated by"),
    atomic("semicolons", HEADER.replace("\t", ";") + walk().replace("\t", ";"), "'field:type'"),
    atomic("no types in the header", "user_id\titem_id\ttimestamp\n" + walk(), "must name columns"),
    atomic("an unknown type", HEADER.replace("item_id:token", "item_id:word") + walk(), "'item_id:word'"),
    atomic("a column named twice", HEADER.replace("user_id", "item_id") + walk(), "'item_id' twice"),
    atomic("no column of users", HEADER.replace("user_id", "uid") + walk(), "no column 'user_id'"),
    atomic("no column of times", "user_id:token\titem_id:token\nu\ti\n", "no column 'timestamp'.*TIME_FIELD"),
    atomic("times that are tokens", HEADER.replace("float", "token") + walk(), "must be of the type float"),
    atomic(
        "a time that is not a number", HEADER + walk() + "u1\ti1\tnan\n", "1 rows of .* no finite timestamp"
    ),
    atomic("a missing time", HEADER + "u1\ti1\t\n" + walk(), "no finite timestamp, the first is row 1"),
    atomic("an infinite time", HEADER + walk() + "u1\ti1\tinf\n", "no finite timestamp.*row 181"),
    atomic("a time before all times", HEADER + walk() + "u1\ti1\t-inf\n", "no finite timestamp"),
    atomic(
        "a time too large for a float",
        HEADER + walk() + "u1\ti1\t1e999\n",
        "Line 182 .* no finite number|row 181 \\(inf\\)",
    ),
    atomic(
        "a time in words", HEADER + walk(1) + "u1\ti1\tyesterday\n", "Line 8 .*'yesterday'.*must be a number"
    ),
    atomic("a row with too many values", HEADER + walk(1) + "u\ti\t1\t2\n", "Line 8 .*has 4 values.*names 3"),
    atomic("every row with too many values", HEADER + walk().replace("\n", "\t9\n"), "Line 2 .*has 4 values"),
    atomic("a row with too few values", HEADER + walk() + "u1\ti1\n", "no finite timestamp"),
    atomic("Latin-1 in a row", (HEADER + walk() + "u\té\t1\n").encode("latin-1"), "not utf-8 text.*encoding"),
    atomic("Latin-1 in the header", ("é" + HEADER + walk()).encode("latin-1"), "not utf-8 text"),
    atomic("UTF-16", (HEADER + walk()).encode("utf-16"), "not utf-8 text"),
    atomic("a byte order mark", "\ufeff" + HEADER + walk(), "byte order mark; set encoding: utf-8-sig"),
    atomic("a compressed file", gzip.compress((HEADER + walk()).encode()), "not utf-8 text"),
    atomic("random bytes", random.Random(0).randbytes(4096), r"not utf-8 text|'field:type'"),
    atomic("NUL bytes in an id", HEADER + walk() + "u\0v\ti1\t3\n" + walk(1), "Line 182 .* NUL byte"),
    atomic(
        "a quotation mark left open", HEADER + walk() + 'u1\t"i1\t9\n' + walk(2), "quotation marks|EOF inside"
    ),
    atomic("a first line of 10 MB", "x" * 10_000_000 + "\n" + walk(), "must name columns as 'field:type'"),
    atomic("one interaction a user", HEADER + "u\ti\t1\nv\tj\t2\n", "has one interaction", keys=ONE),
    atomic(
        "three interactions a user",
        HEADER + "u\ti\t1\nu\tj\t2\nu\tk\t3\n",
        "needs four interactions",
        keys=ONE,
    ),
    atomic("fewer items than topk", HEADER + walk(items=5), "has 5 items, fewer than topk"),
    atomic(
        "everything filtered away",
        HEADER + walk(),
        "loosen user_inter",
        keys=("--user_inter_num_interval=[9,inf)",),
    ),
    in_place("no such dataset", lambda f: None, "There is no dataset 'nowhere'", "nowhere"),
    in_place(
        "a folder instead of the file",
        lambda f: (f / "mine" / "mine.inter").mkdir(parents=True),
        "is a folder",
    ),
    in_place("a file instead of the folder", lambda f: (f / "mine").write_text("x"), "must be the folder"),
    in_place("a folder without the file", lambda f: (f / "mine").mkdir(), "the folder holds nothing"),
]
FINE = [
    atomic("Windows line ends", (HEADER + walk()).replace("\n", "\r\n"), code=0),
    atomic("old Macintosh line ends", (HEADER + walk()).replace("\n", "\r"), code=0),
    atomic(
        "a byte order mark, announced", "\ufeff" + HEADER + walk(), code=0, keys=("--encoding=utf-8-sig",)
    ),
    atomic("ids in every script", HEADER + walk(item="影片 {}", user="ünïcode-🎬{}"), code=0),
    atomic("ids with spaces and commas", HEADER + walk(item="item, no {}", user=" user {}"), code=0),
    atomic("equal times", HEADER + walk(time="7"), code=0),
    atomic("negative and huge times", HEADER + walk(time="-{}e17"), code=0),
    atomic("every row twice", HEADER + walk() + walk(), code=0),
    atomic("blank lines between and no end of line", HEADER + walk() + "\n\n" + walk(1)[:-1], code=0),
    atomic("an id of 10 MB", HEADER + walk() + "u1\t" + "x" * 10_000_000 + "\t9\n", code=0),
    atomic(
        "a row without an item", HEADER + walk() + "u1\t\t9\n", r"line \[182\], item_id do not exist", code=0
    ),
    atomic("a user with 100,000 items", HEADER + walk() + LONG_USER, code=0, keys=WINDOWS),
]
CONFIGS = [
    config("a list", "- epochs\n- 3\n", "must hold lines 'key: value', but holds a list"),
    config("one word", "epochs\n", "holds a single value"),
    config("a tab", "epochs:\n\t3\n", "not valid YAML.*line 2"),
    config("an open bracket", "topk: [1, 2\n", "not valid YAML"),
    config("a key twice", "epochs: 1\nseed: 2\nepochs: 3\n", "key 'epochs' twice, in lines 1 and 3"),
    config("a Python object", "seed: !!python/object/apply:os.mkdir [pwned]\n", "may hold plain values only"),
    config("a Python name", "seed: !!python/name:os.mkdir\n", "may hold plain values only"),
    config("a bomb of aliases", bomb(), "by its aliases"),
    config("an alias that holds itself", "load_col: &a [*a]\n", "holds itself"),
    config("a thousand brackets", "topk: " + "[" * 5000 + "]" * 5000, "nested too deeply"),
    config("not UTF-8", b"state: \xff\xfe\n", "not UTF-8"),
    config("a key that is a number", "7: seven\n", "the key 7"),
    config("a misspelt key", "temprature: 1\n", "did you mean 'temperature'"),
    config("a number in words", "learning_rate: fast\n", "'learning_rate' must be .*a number"),
    config("an unknown augmentation", "augmentation: shuffle\n", "'augmentation' must be one of asar"),
    config("a list of one augmentation", "augmentation: [crop]\n", "a list of two or more"),
    config("an augmentation that is a mapping", "augmentation: {a: 1}\n", "'augmentation' must be one of"),
    config("keys that conflict", "training: all_positions\nbatching: random\n", "needs batching: bucketed"),
    config("negatives for cross-entropy", "train_neg_sample_args: {sample_num: 1}\n", "should be None"),
    config("a protocol that is a list", "eval_args: [LS]\n", "'eval_args' must be a mapping"),
    config("an unknown split", "eval_args: {split: {XX: 1}}\n", "must have one of LS, RS, TS"),
    config("shares that are words", "eval_args: {split: {RS: [a, b, c]}}\n", "a list of three numbers"),
    config(
        "an unknown mode", "eval_args: {split: {LS: valid_and_test}, mode: unique}\n", "full, labeled, uni100"
    ),
    config("a file of comments alone", "# nothing\n", code=0),
    config("numbers as RecBole reads them", "learning_rate: 1e-3\n", code=0),
    argument(
        "a configuration file that is not there",
        "--config_files=none.yaml",
        says="'none.yaml' does not exist",
    ),
    argument("a configuration file that is a folder", "--config_files=dataset", says="cannot be read"),
    argument("a key without its value", "--epochs", says="must be written as --key=value"),
    argument("a key with nothing after =", "--seed=", says="must be written as --key=value"),
    argument("a key with two values", "--seed=1=2", says="must be written as --key=value"),
    argument("a stray word", "epochs", says="'epochs' must be written"),
    argument("a key given twice", "--seed=3", "--seed=4", says="more than once"),
    argument("an unknown model", "--model=AsarSASRek", says="did you mean 'AsarSASRec'"),
    argument("a model that cannot be augmented", "--model=AsarBPR", says="no model|cannot"),
    argument("no processes", "--nproc=0", says="at least 1"),
    argument(
        "code on the command line", "--seed=__import__('os').mkdir('pwned')", says="'seed' must be a whole"
    ),
    argument("temperature 0", "--temperature=0", says="greater than 0"),
    argument("half a candidate", "--num_candidates=0.5", says="'num_candidates' must be a whole number"),
    argument("a share above one", "--perturbation_budget=2", says="less than 1"),
    argument("a batch of nothing", "--eval_batch_size=0", says="'eval_batch_size' must be a whole number"),
    argument("a sequence of nothing", "--MAX_ITEM_LIST_LENGTH=0", says="'MAX_ITEM_LIST_LENGTH' must be"),
    argument("a negative seed", "--seed=-1", says="'seed' must be"),
    argument("heads that do not fit", "--n_heads=3", says="multiple of n_heads", code=2),
    argument("an unknown metric", "--metrics=['Hit','Fame']", "--valid_metric=Hit@10", says="Fame"),
    argument("a metric that is not measured", "--valid_metric=MRR@10", says="not measured"),
    argument("a k that is not measured", "--valid_metric=NDCG@7", says="not measured"),
    argument("topk 0", "--topk=[0]", says="'topk' must be"),
    argument("an unknown loss", "--loss_type=hinge", says="'loss_type' must be one of CE, BPR"),
    argument("an unknown optimiser", "--learner=magic", says="'learner' must be one of adam"),
    argument("an interval that is none", "--user_inter_num_interval=5", says="intervals such as"),
    argument("an unknown encoding", "--encoding=klingon", says="'encoding' must be None or an encoding"),
    argument("yes for True", "--edit_cap=yes", says="True or False"),
    argument("columns without the time", "--load_col={'inter': 5}", says="load_col"),
]


class Hostile:
    """Makes a folder when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("pwned",)


def stored(file: Path, whole: Path, **changes: object) -> Path:
    """A copy of a good checkpoint with some of its values changed."""
    checkpoint.write({**checkpoint.read(whole), **changes}, file)
    return file


def zipped(file: Path) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("readme.txt", "no checkpoint")


def changed_config(whole: Path, **keys: object) -> dict:
    return {**checkpoint.read(whole)["config"], **keys}


def weights(whole: Path, name: str, value: object) -> dict:
    return {**checkpoint.read(whole)["state_dict"], name: value}


# (name, how the file x.pth is made from a whole one, what is said, exit code)
CHECKPOINTS = [
    ("an empty checkpoint", lambda x, w: x.write_bytes(b""), "not a whole checkpoint", 2),
    (
        "half a checkpoint",
        lambda x, w: x.write_bytes(w.read_bytes()[: w.stat().st_size // 2]),
        "not a whole",
        2,
    ),
    ("a checkpoint without its end", lambda x, w: x.write_bytes(w.read_bytes()[:-100]), "not a whole", 2),
    ("a text file", lambda x, w: x.write_text("weights"), "not a whole checkpoint", 2),
    ("a zip that is no checkpoint", lambda x, w: zipped(x), "x.pth", 2),
    ("a folder", lambda x, w: x.mkdir(), "is a folder", 2),
    ("nothing", lambda x, w: None, "does not exist", 2),
    ("a bare pickle", lambda x, w: x.write_bytes(pickle.dumps({"a": 1})), "x.pth", 2),
    ("pickled code", lambda x, w: x.write_bytes(pickle.dumps(Hostile())), "x.pth", 2),
    (
        "code among the weights",
        lambda x, w: torch.save({"state_dict": Hostile()}, x),
        "run code when opened",
        2,
    ),
    ("other tensors", lambda x, w: torch.save({"weights": torch.zeros(3)}, x), "no RecBole checkpoint", 2),
    ("no names of items", lambda x, w: stored(x, w, item_tokens=None), "does not name its items", 2),
    ("names of items that are numbers", lambda x, w: stored(x, w, item_tokens=[1, 2]), "does not name", 2),
    ("fewer names than items", lambda x, w: stored(x, w, item_tokens=["[PAD]", "a"]), "another item set", 2),
    ("a configuration that is a list", lambda x, w: stored(x, w, config=[1]), "x.pth", 2),
    ("an empty configuration", lambda x, w: stored(x, w, config={}), "configuration has no fitting", 2),
    (
        "a model that does not exist",
        lambda x, w: stored(x, w, config=changed_config(w, model="Nobody")),
        "There is no model 'Nobody'",
        2,
    ),
    (
        "another model",
        lambda x, w: stored(x, w, config=changed_config(w, model="AsarGRU4Rec")),
        "does not fit|cannot be built",
        2,
    ),
    (
        "another size",
        lambda x, w: stored(x, w, config=changed_config(w, hidden_size=8, inner_size=8)),
        "another item set|another configuration",
        2,
    ),
    (
        "a size that is a word",
        lambda x, w: stored(x, w, config=changed_config(w, hidden_size="big")),
        "'hidden_size' must be a whole number",
        2,
    ),
    ("weights that are words", lambda x, w: stored(x, w, state_dict={"w": "x"}), "not made of tensors", 2),
    ("weights that are a list", lambda x, w: stored(x, w, state_dict=[1, 2]), "not made of tensors", 2),
    ("no weights", lambda x, w: stored(x, w, state_dict={}), "the checkpoint has no", 2),
    (
        "one weight too many",
        lambda x, w: stored(x, w, state_dict=weights(w, "b", torch.ones(1))),
        "has no 'b'",
        2,
    ),
    ("another plugin version", lambda x, w: stored(x, w, recbole_asarrec="0.0.1"), "", 0),
]
HISTORIES = [
    ("one good history", b'["i3", "i4"]\n', [], '"items"', 0),
    ("no histories", b"", [], "", 0),
    ("an empty history", b"[]\n", [], "1 histories had no known item", 0),
    ("unknown items alone", b'["moon", "sun"]\n', [], "2 items that training never saw", 0),
    ("unknown items, refused", b'["moon"]\n', ["--unknown=refuse"], "'moon' is not in the catalogue", 2),
    ("more items than there are", b'["i3"]\n', ["-k", "100000"], '"items"', 0),
    ("no items wanted", b'["i3"]\n', ["-k", "0"], "k must be", 2),
    ("fewer than no items wanted", b'["i3"]\n', ["-k", "-3"], "k must be", 2),
    ("not JSON", b'["i3"]\n["i4"\n', [], "Line 2 of .* is not JSON", 2),
    ("a number", b"7\n", [], "must be a list", 2),
    ("a text", b'"i3"\n', [], "must be a list", 2),
    ("a record without a history", b'{"user": "ann"}\n', [], "under 'history'", 2),
    ("a list in a list", b'[["i3"]]\n', [], r"has the item \['i3'\]", 2),
    ("null for an item", b'["i3", null]\n', [], "has the item None", 2),
    ("brackets without end", b"[" * 100_000 + b"\n", [], "is not JSON", 2),
    ("histories that are not UTF-8", b'["\xff"]\n', [], "not UTF-8", 2),
    ("a byte order mark before histories", b'\xef\xbb\xbf["i3"]\n', [], '"items"', 0),
    ("Windows line ends in histories", b'["i3"]\r\n["i4"]\r\n', [], '"items"', 0),
    (
        "an output folder that is not there",
        b'["i3"]\n',
        ["-o", "no/best.jsonl"],
        "does not exist; make it",
        2,
    ),
    ("an output that exists", b'["i3"]\n', ["-o", "histories.jsonl"], "exists; choose another name", 2),
    ("a folder as output", b'["i3"]\n', ["-o", ".", "--overwrite"], "is a folder", 2),
]
TABLES = [
    ("CSV without columns", b"a,b\n1,2\n", "must name the columns user,items", 2),
    ("empty CSV", b"", "must name the columns user,items", 2),
    ("CSV with a field of 10 MB", b"user,items\nann," + b"i3 " * 3_500_000 + b"\n", '"items"', 0),
    ("CSV with too few values", b"user,items\nann\n", "1 histories had no known item", 0),
    ("CSV with an open quotation mark", b'user,items\nann,"i3 i4\n', '"items"', 0),
]


def test_there_are_enough_of_them():
    """Sixty was asked for; names are what a reader of a failed run sees, so no two are equal."""
    names = [case[0] for group in (ATOMIC, CONFIGS, FINE, CHECKPOINTS, HISTORIES, TABLES) for case in group]
    assert len(names) >= 60 and len(set(names)) == len(names)


def digests(folder: Path) -> dict[str, str]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def check(code: int, wanted: int, says: str, shown: str, folder: Path, before: dict[str, str]) -> None:
    assert "Traceback" not in shown, shown[-3000:]
    assert code == wanted, shown[-3000:]
    assert re.search(says, shown, re.S), shown[-3000:]
    if wanted:
        assert shown.count("Error: ") == 1, shown[-3000:]
    after = digests(folder)
    assert {file: after.get(file) for file in before} == before, "a file that was there is changed or gone"
    assert not (folder / "pwned").exists(), "code from the input was run"
    assert not list(folder.rglob("*.part"))


@pytest.mark.parametrize("case", [*ATOMIC, *CONFIGS, *FINE], ids=lambda case: case.name)
def test_training(case, workplace, monkeypatch, capfd, caplog):
    arguments = case.make(workplace)
    before = digests(workplace)
    given = {argument.partition("=")[0] for argument in arguments}
    keys = [key for key in KEYS if key.partition("=")[0] not in given]
    model = [] if "--model" in given else ["--model=AsarSASRec"]
    monkeypatch.setattr(sys, "argv", ["run_recbole.py"])  # where RecBole finds its keys during the run
    with caplog.at_level("WARNING"):
        code = main(["train", *model, *keys, *arguments])
    shown = capfd.readouterr()
    check(code, case.code, case.says, shown.out + shown.err + caplog.text, workplace, before)


@pytest.fixture
def whole(trained):
    """A good checkpoint."""
    (file,) = (trained / "saved").glob("AsarSASRec-*.pth")
    return file


@pytest.fixture
def recommended(workplace, capfd, caplog):
    """Run ``recommend`` and check how it ends."""

    def run(arguments: list[str], says: str, code: int) -> None:
        before = digests(workplace)
        with caplog.at_level("WARNING"):
            done = main(["recommend", *arguments])
        shown = capfd.readouterr()
        check(done, code, says, shown.out + shown.err + caplog.text, workplace, before)

    return run


def named(cases: list[tuple]) -> dict:
    return {"argvalues": [case[1:] for case in cases], "ids": [case[0] for case in cases]}


@pytest.mark.parametrize(("make", "says", "code"), **named(CHECKPOINTS))
def test_checkpoints(make, says, code, whole, workplace, recommended):
    make(workplace / "x.pth", whole)
    (workplace / "histories.jsonl").write_text('["i3"]\n')
    recommended(["x.pth", "histories.jsonl"], says, code)


@pytest.mark.parametrize(("content", "arguments", "says", "code"), **named(HISTORIES))
def test_histories(content, arguments, says, code, whole, workplace, recommended):
    (workplace / "histories.jsonl").write_bytes(content)
    recommended([str(whole), "histories.jsonl", *arguments], says, code)


@pytest.mark.parametrize(("content", "says", "code"), **named(TABLES))
def test_tables_of_histories(content, says, code, whole, workplace, recommended):
    (workplace / "histories.csv").write_bytes(content)
    recommended([str(whole), "histories.csv"], says, code)


def test_histories_stream_through(whole):
    """A million histories must not be held in memory; the reader may be ahead of the writer by a batch."""
    read = 0

    def source():
        nonlocal read
        for number in range(5_000):
            read += 1
            yield [f"i{number % 30}"]

    ahead = 0
    for written, _ in enumerate(Recommender(whole).stream(source(), k=1, batch_size=256)):
        ahead = max(ahead, read - written)
    assert written == 4_999 and ahead <= 256
