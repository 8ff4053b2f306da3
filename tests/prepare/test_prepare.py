"""Raw files come in every state; a dataset made of one is whole and right, or is not there."""

import contextlib
import gzip
import resource
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from helpers import build
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pandas._libs.parsers import STR_NA_VALUES
from recbole.config import Config

from recbole_asarrec.__main__ import main
from recbole_asarrec.compat import read_properties
from recbole_asarrec.errors import DataError
from recbole_asarrec.prepare import lines
from recbole_asarrec.prepare.command import FORMATS, TITLES, read_interactions
from recbole_asarrec.prepare.formats import MISSING, Reading, choose
from recbole_asarrec.prepare.interactions import Interactions, collect
from recbole_asarrec.prepare.paper import PUBLISHED, USER_CORE, recbole_name
from recbole_asarrec.prepare.statistics import Statistics
from recbole_asarrec.prepare.writer import write_inter

HEADER = "user_id:token\titem_id:token\ttimestamp:float"
REVIEW = '{"reviewerID": "%s", "asin": "%s", "overall": 5.0, "reviewText": "a,b\\tc", "unixReviewTime": %s}'
ANN, BOB, CUP, JAR = "A2CF66KIQ3RKX3", "A1YQ4Z5U9NIGP", "B00005N7P0", "0439381673"

SAMPLES = {
    "amazon-json": (
        [REVIEW % (ANN, CUP, 1200), REVIEW % (BOB, JAR, 900), REVIEW % (ANN, JAR, 1100)],
        [f"{ANN}\t{JAR}\t1100", f"{ANN}\t{CUP}\t1200", f"{BOB}\t{JAR}\t900"],
    ),
    "amazon-csv-2014": (
        [f"{ANN},{CUP},5.0,1200", f"{BOB},{JAR},4.0,900", f"{ANN},{JAR},1.0,1100"],
        [f"{ANN}\t{JAR}\t1100", f"{ANN}\t{CUP}\t1200", f"{BOB}\t{JAR}\t900"],
    ),
    "amazon-csv-2018": (
        [f"{CUP},{ANN},5.0,1200", f"{JAR},{BOB},4.0,900", f"{JAR},{ANN},1.0,1100"],
        [f"{ANN}\t{JAR}\t1100", f"{ANN}\t{CUP}\t1200", f"{BOB}\t{JAR}\t900"],
    ),
    "movielens": (
        ["userId,movieId,rating,timestamp", "1,2,3.5,1112486027", "1,29,3.5,1112484676", "2,3,4,9.5"],
        ["1\t29\t1112484676", "1\t2\t1112486027", "2\t3\t9.5"],
    ),
    "pairs": (["7 5", "7 3", "4 5", "7 5"], ["7\t5\t0", "7\t3\t1", "7\t5\t2", "4\t5\t0"]),
    "sequences": (["7 5 3 5", "4 5"], ["7\t5\t0", "7\t3\t1", "7\t5\t2", "4\t5\t0"]),
}
MIND = [
    "1\tU80\t11/11/2019 9:05:58 PM\tN1 N2\tN3-1 N4-0 N5-0",
    "2\tU80\t11/11/2019 9:05:58 AM\tN1 N2\tN6-0 N7-1",
    "3\tU91\t11/15/2019 12:00:00 AM\t\tN3-0 N1-1",
    "4\tU80\t11/12/2019 12:00:00 PM\tN1 N2 N9\tN4-0",
]


def raw(folder: Path, content, name="raw", ends="\n") -> Path:
    path = folder / name
    data = content if isinstance(content, bytes) else (ends.join(content) + ends).encode()
    path.write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
    return path


def prepare(path, *options, name="mine") -> int:
    return main(["prepare", name, "--from", str(path), *options])


def made(name="mine", suffix="inter") -> list:
    header, *rows = (Path("dataset") / name / f"{name}.{suffix}").read_text().splitlines()
    return rows if suffix == "inter" and header == HEADER else [header, *rows]


def nothing_made() -> bool:
    return not Path("dataset").exists() or not list(Path("dataset").iterdir())


@pytest.mark.parametrize("name", ["raw", "raw.gz"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["unix", "windows"])
@pytest.mark.parametrize("kind", SAMPLES)
def test_each_format_is_told_by_its_lines(workplace, kind, ends, name):
    content, rows = SAMPLES[kind]
    path = raw(workplace, content, name, ends)
    assert choose(path, FORMATS, None).name == kind
    assert prepare(path) == 0 and made() == rows


def test_mind_is_the_history_once_and_then_the_clicks(workplace):
    """Every line of a user repeats the history, and RecBole's own MIND has a label that filters."""
    assert prepare(raw(workplace, MIND), name="mind") == 0
    assert made("mind") == [
        HEADER + "\tlabel:float",
        "U80\tN1\t0\t1",
        "U80\tN2\t1\t1",
        "U80\tN9\t2\t1",
        "U80\tN7\t1573463158\t1",
        "U80\tN3\t1573506358\t1",
        "U91\tN1\t1573776000\t1",
    ]


def test_recbole_trains_on_the_clicks_of_its_own_mind_file(workplace):
    """RecBole's download lists what was shown and not clicked too: those rows are no interactions."""
    rows = [f"u{u}\ti{(u + t) % 9}\t{int(t % 3 > 0)}\t{t}" for u in range(20) for t in range(12)]
    path = workplace / "dataset" / "mind" / "mind.inter"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(["user_id:token\titem_id:token\tlabel:float\ttimestamp:float", *rows]) + "\n")
    _, (train, valid, test), _ = build(dataset="mind", topk=[5], valid_metric="NDCG@5")
    assert train.dataset.inter_num == 20 * (8 - 1 - 2) and len(valid.dataset) == len(test.dataset) == 20
    assert "label" not in train.dataset.inter_feat


def test_every_prepared_mind_has_the_label_and_one_without_it_gets_a_sentence(workplace):
    assert (
        prepare(raw(workplace, [f"{user} {item}" for user in range(9) for item in range(6)]), name="mind")
        == 0
    )
    assert made("mind")[:2] == [HEADER + "\tlabel:float", "0\t0\t0\t1"]
    Path("dataset/mind/mind.inter").write_text(HEADER + "\nu\ti\t1\n")
    with pytest.raises(DataError, match="no column 'label', by which val_interval filters"):
        build(dataset="mind")


def test_equal_times_keep_the_order_of_the_file(workplace):
    """Amazon's times are days, so a user's order within a day is the file's; RecBole sorts stably after."""
    items = [f"B{number:09}" for number in (5, 3, 9, 1, 7)]
    path = raw(workplace, [f"{ANN},{item},5.0,{900 if item == items[3] else 1000}" for item in items])
    assert prepare(path) == 0
    assert [row.split("\t")[1] for row in made()] == [items[3], items[0], items[1], items[2], items[4]]


def test_an_event_given_twice_is_one_and_a_return_is_two(workplace, capsys):
    rows = [f"{ANN},{CUP},5.0,10", f"{ANN},{JAR},5.0,10", f"{ANN},{CUP},4.0,10", f"{ANN},{CUP},5.0,11"]
    assert prepare(raw(workplace, rows)) == 0
    assert made() == [f"{ANN}\t{CUP}\t10", f"{ANN}\t{JAR}\t10", f"{ANN}\t{CUP}\t11"]
    assert "1 events given twice" in capsys.readouterr().out


def test_bad_lines_are_counted_and_named(workplace, capsys):
    good = [f"{ANN},{CUP},5.0,{time}" for time in range(8)]
    bad = ["", f"{ANN},{CUP},5.0", f"{ANN},{CUP},5.0,nan", f",{CUP},5.0,1", f"{ANN},NULL,5.0,1"]
    assert prepare(raw(workplace, good[:2] + bad + good[2:])) == 0
    assert (
        len(made()) == 8
        and "8 lines read, 4 bad ones passed over (line 4, 5, 6, 7)" in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    "line",
    [
        REVIEW % (ANN, CUP, "9" * 400),
        REVIEW % (ANN, CUP, "1e999"),
        REVIEW % (ANN, CUP, "true"),
        REVIEW % (ANN, "\\ud800", 1),
        REVIEW % (ANN, "\\t", 1),
        "[" * 100_000,
        "[]",
    ],
    ids=["too large", "infinite", "no number", "half a character", "blank", "deep", "a list"],
)
def test_json_that_no_review_is_made_of(workplace, capsys, line):
    assert prepare(raw(workplace, [REVIEW % (ANN, CUP, 1), REVIEW % (ANN, JAR, 2), line])) == 0
    assert len(made()) == 2 and "1 bad ones passed over (line 3)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "options", "says"),
    [
        (b"", [], "looks like none of the known formats"),
        (b"hello\n", [], "looks like none of the known formats"),
        (["user item rating time", "7 5 4 1", "7 3 4 2", "4 5 1 2"], [], "looks like none"),
        (["7 5", "x", "y"], ["--format=pairs"], "1 lines read, 2 bad ones passed over (line 2, 3)"),
        (b"\xff\xfe7\x00 \x005\x00\n\x00", ["--format=pairs"], "0 lines read"),
        (b"\n\n \n", ["--format=pairs"], "0 lines read"),
        (["userId,movieId,rating,timestamp"], [], "holds no interaction: 1 lines read"),
        (["1\tU1\t11/11/2019 9:05:58 PM\t\tN3-0"], [], "holds no interaction: 1 lines read"),
        (b"PK\x03\x04rest", [], "is a zip archive; unpack it"),
        (gzip.compress(b"7 5\n" * 9000, mtime=0)[:-12], [], "cut off or damaged after line"),
        (b"\x1f\x8b\x08rubbish and more of it", [], "cut off or damaged after line"),
        (gzip.compress(b"7 5\n" * 9, mtime=0) + b"tail", [], "cut off or damaged after line"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_gets_one_sentence(workplace, capsys, content, options, says):
    assert prepare(raw(workplace, content), *options) == 2
    error = capsys.readouterr().err.splitlines()
    assert error[-1].startswith("Error: ") and says in error[-1] and nothing_made()


@pytest.mark.parametrize("option", ["--users=0", "--users=some", "--seed=-1", "--format=excel"])
def test_an_option_out_of_range_is_refused(workplace, capsys, option):
    with pytest.raises(SystemExit) as stop:
        prepare(raw(workplace, ["7 5", "7 3"]), option)
    assert stop.value.code == 2 and option.partition("=")[0] in capsys.readouterr().err and nothing_made()


@pytest.mark.parametrize("place", ["nowhere", "."])
def test_no_such_file(workplace, capsys, place):
    assert prepare(place) == 2 and "There is no file" in capsys.readouterr().err and nothing_made()


def test_bytes_that_are_not_utf8(workplace, capsys):
    """In a review's text they do no harm; in a name they would make two users one."""
    rows = [REVIEW % (ANN, CUP, time) for time in range(4)]
    data = (
        "\n".join(rows).encode().replace(b"a,b", b"caf\xe9")
        + b"\n"
        + (REVIEW % ("A\xe9", CUP, 5)).encode("latin1")
    )
    assert prepare(raw(workplace, b"\xef\xbb\xbf" + data)) == 0
    assert len(made()) == 4 and "1 bad ones passed over (line 5)" in capsys.readouterr().out


def test_a_line_without_end_is_not_held_in_memory(workplace, monkeypatch, capsys):
    monkeypatch.setattr(lines, "LONGEST", 64)
    assert prepare(raw(workplace, ["7 5", "7 " + "1" * 500, "7 3"]), "--format=pairs") == 0
    assert made() == ["7\t5\t0", "7\t3\t1"] and "(line 2)" in capsys.readouterr().out


def test_nothing_is_overwritten_without_being_asked(workplace, capsys):
    path = raw(workplace, ["7 5", "7 3"])
    assert prepare(path) == 0
    (workplace / "dataset" / "mine" / "notes.txt").write_text("mine")
    again = raw(workplace, ["1 2", "1 3"], "other")
    assert prepare(again) == 2 and "add --overwrite" in capsys.readouterr().err
    assert made() == ["7\t5\t0", "7\t3\t1"]
    assert prepare(raw(workplace, ["x"], "bad"), "--overwrite", "--format=pairs") == 2
    assert made() == ["7\t5\t0", "7\t3\t1"]
    assert prepare(again, "--overwrite") == 0 and made() == ["1\t2\t0", "1\t3\t1"]
    assert (workplace / "dataset" / "mine" / "notes.txt").read_text() == "mine"
    assert [path.name for path in (workplace / "dataset").iterdir()] == ["mine"]


@contextlib.contextmanager
def largest_file(size):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_is_full_leaves_the_old_data_set(workplace, capsys):
    assert prepare(raw(workplace, ["7 5", "7 3"])) == 0
    path = raw(workplace, [f"{user} {item}" for user in range(100) for item in range(100)])
    with largest_file(4096):
        assert prepare(path, "--overwrite") == 2
    assert "could not be written" in capsys.readouterr().err and made() == ["7\t5\t0", "7\t3\t1"]
    assert [path.name for path in (workplace / "dataset").iterdir()] == ["mine"]


@pytest.mark.parametrize("name", ["../x", "/x", "..", ".", "", "a/b", "a\\b", "a\0b", "x/../../y"])
def test_a_name_cannot_leave_the_data_folder(workplace, capsys, name):
    path = raw(workplace, ["7 5", "7 3"])
    assert prepare(path, name=name) == 2 and "cannot be called" in capsys.readouterr().err
    with pytest.raises(DataError, match="cannot be called"):
        Config("AsarSASRec", name, config_dict={})
    assert [p.name for p in workplace.iterdir()] == ["raw"]


def test_users_are_drawn_by_seed(workplace, monkeypatch, capsys):
    path = raw(workplace, [f"{user} {item}" for user in range(40) for item in range(6)])
    drawn = []
    for seed in (3, 3, 4):
        assert prepare(path, "--users=10", f"--seed={seed}", "--overwrite") == 0
        drawn.append({row.split("\t")[0] for row in made()})
        assert len(drawn[-1]) == 10 and len(made()) == 60
    assert drawn[0] == drawn[1] != drawn[2]
    assert prepare(path, "--users=99", "--overwrite") == 0 and len(made()) == 240
    monkeypatch.setitem(PUBLISHED, "mind", replace(PUBLISHED["mind"], users_sampled=7))
    assert prepare(path, name="mind") == 0 and len(made("mind")) == 1 + 42
    assert prepare(path, "--users=all", "--overwrite", name="mind") == 0 and len(made("mind")) == 1 + 240


@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        (
            "amazon-meta",
            [
                f'{{"asin": "{CUP}", "title": "Cup &amp; \\"saucer\\""}}',
                f"{{'asin': '{JAR}', 'title': 'A\\tjar'}}",
            ],
            {CUP: "Cup & 'saucer'", JAR: "A jar"},
        ),
        (
            "mind-news",
            [f"N{n}\tsport\tgolf\tTitle {n}\ttext\turl\t[]\t[]" for n in (1, 2)],
            {"N1": "Title 1"},
        ),
        (
            "movielens-movies",
            ["movieId,title,genres", '1,"American President, The (1995)",Drama', "5,Heat,Action|Crime"],
            {"1": "American President, The (1995)"},
        ),
    ],
)
def test_item_names(workplace, kind, content, expected):
    path = raw(workplace, content, "items.gz")
    assert choose(path, TITLES, None).name == kind
    rows = raw(workplace, [f"u {item}" for item in expected])
    assert prepare(rows, f"--items={path}", "--format=pairs") == 0
    read = pd.read_csv("dataset/mine/mine.item", sep="\t", dtype=str)
    assert list(read) == ["item_id:token", "title:token"]
    assert dict(read.itertuples(index=False)) == expected


# The paper's table of datasets


@pytest.mark.parametrize(
    ("name", "length", "sparsity"),
    [
        ("amazon-games", "8.8", "99.97%"),
        ("amazon-arts", "8.4", "99.99%"),
        ("mind", "27.4", "99.96%"),
        ("ml-20m", "144.4", "99.47%"),
    ],
)
def test_the_papers_counts_give_the_papers_averages(name, length, sparsity):
    """Two columns of its table follow from the others: a slip in copying would show."""
    data = PUBLISHED[name]
    assert Statistics(data.users, data.items, data.interactions).rows()[3:] == [length, sparsity]


def test_statistics_beside_the_papers(workplace, capsys):
    rows = [f"{user} {item}" for user in range(6) for item in range(user + 2)]
    assert prepare(raw(workplace, rows), name="amazon-games") == 0
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["users", "6", "3", "61,521"] in table and ["items", "7", "7", "33,243"] in table
    assert ["interactions", "27", "18", "541,789"] in table and [
        "sparsity",
        "35.71%",
        "14.29%",
        "99.97%",
    ] in table


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_papers_settings(workplace, name):
    properties = read_properties("dataset", f"{name}.yaml")
    core = PUBLISHED[name].item_core
    assert properties["user_inter_num_interval"] == f"[{USER_CORE},inf)"
    assert properties.get("item_inter_num_interval") == (f"[{core},inf)" if core else None)
    config = Config("AsarSASRec", name, config_dict={})
    assert config["MAX_ITEM_LIST_LENGTH"] == 50 and config["eval_args"]["split"] == {"LS": "valid_and_test"}
    assert config["eval_args"]["mode"] == {"valid": "full", "test": "full"}


def test_the_papers_names_are_in_recboles_list():
    import recbole

    known = yaml.safe_load((Path(recbole.__file__).parent / "properties/dataset/url.yaml").read_text())
    assert all(recbole_name(name) in known for name in PUBLISHED) and recbole_name("other") == "other"


# Any bytes, any rows

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
WORDS = [
    ANN,
    CUP,
    "{",
    "}",
    '"',
    "'",
    ",",
    "\t",
    " ",
    "\n",
    "\r\n",
    "-1",
    "1",
    "[" * 3000,
    "11/11/2019 9:05:58 AM",
]
WORDS += [
    '{"reviewerID":',
    '"asin":',
    '"unixReviewTime":',
    "9" * 400,
    "null",
    "\ud800".encode(errors="surrogatepass"),
]
FRAGMENTS = st.lists(
    st.sampled_from([w if isinstance(w, bytes) else w.encode() for w in WORDS]) | st.binary(max_size=8)
)


@pytest.mark.parametrize("kind", [*FORMATS, *TITLES])
@given(content=FRAGMENTS.map(b"".join), compressed=st.booleans())
@QUICK
def test_any_bytes_are_read_or_refused(tmp_path, kind, content, compressed):
    """A reader yields records, counts a bad line or says one sentence; it knows no other way out."""
    path = tmp_path / "raw"
    path.write_bytes(gzip.compress(content, 1) if compressed else content)
    known = {**FORMATS, **TITLES}
    reading = Reading(path, known[kind])
    try:
        records = list(reading.records())
    except DataError as error:
        assert str(path) in str(error) and "\n" not in str(error)
    else:
        assert reading.good and all(isinstance(text, str) for record in records for text in record[:2])
    with contextlib.suppress(DataError):
        assert choose(path, known, None).name in known


NAMES = st.text(min_size=1, max_size=6)
TIMES = st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 3)


@given(rows=st.lists(st.tuples(NAMES, NAMES, TIMES), min_size=1))
@QUICK
def test_what_is_written_is_what_recbole_reads(tmp_path, rows):
    """Whatever a reviewer is called: a name that RecBole could not read back counts as a bad line."""
    import json

    path = tmp_path / "raw"
    review = [{"reviewerID": user, "asin": item, "unixReviewTime": time} for user, item, time in rows]
    path.write_text("\n".join(map(json.dumps, review)))
    reading = Reading(path, FORMATS["amazon-json"])
    try:
        interactions, dropped = read_interactions(reading)
    except DataError:
        return
    write_inter(interactions, tmp_path / "mine.inter", labelled=False)
    read = pd.read_csv(
        tmp_path / "mine.inter",
        delimiter="\t",
        dtype={0: str, 1: str, 2: float},
        float_precision="round_trip",
    )
    assert len(read) + dropped == reading.good and not read.isna().any().any()
    expected = {
        (user.strip(), item.strip(), float(time))
        for user, item, time in rows
        if not {user.strip(), item.strip()} & (MISSING | {""})
        and not any(
            sign in user.strip() + item.strip() for sign in '"\ufffd\x7f' + "".join(map(chr, range(32)))
        )
    }
    assert set(read.itertuples(index=False, name=None)) == expected
    for _, history in read.groupby("user_id:token", sort=False):
        assert history.iloc[:, 2].is_monotonic_increasing


def test_the_words_for_missing_are_those_of_pandas():
    assert MISSING - {"[PAD]"} == STR_NA_VALUES - {""}


@given(
    pairs=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=40),
    user=st.integers(0, 4),
    item=st.integers(0, 4),
)
@QUICK
def test_the_core_is_the_largest_part_that_keeps_its_promise(pairs, user, item):
    """Against the plainest way to find it: throw one out, start again."""
    left = list(enumerate(pairs))
    while True:
        for _, (u, i) in left:
            if sum(v == u for _, (v, _) in left) < user or sum(j == i for _, (_, j) in left) < item:
                left = [(row, (v, j)) for row, (v, j) in left if (v, j) != (u, i)]
                break
        else:
            break
    events = collect((str(u), str(i), float(row)) for row, (u, i) in enumerate(pairs))
    assert sorted(events.core(user, item).time) == [row for row, _ in left]


def test_numbers_of_a_history_start_at_nought_for_every_user():
    user = np.array([0, 0, 2, 2, 2, 5])
    rows = Interactions([], [], user, user, user.astype(float)).numbered()
    assert rows.time.tolist() == [0, 1, 0, 1, 2, 0]
