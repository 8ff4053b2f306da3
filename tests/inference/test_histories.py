"""However a file is cut into windows, its histories are the same, in the same order."""

import importlib
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from recbole_asarrec.errors import UserError
from recbole_asarrec.inference import histories, parquet
from recbole_asarrec.inference.histories import open_histories, parse, text_source
from recbole_asarrec.inference.topk import TopItems

JSON = '["a"]\n\n["b", 7]\r\n{"user": "ann", "history": ["é", "\u2028"]}\n   \n[]\n{"history": [1.5]}'
CSV = 'user,items\nann,a b\n"two\nlines","c\nd"\n\nonly one\r\n"quoted ""user""",e,more\nlast,"open\n'
READ_JSON = [("1", ["a"]), ("3", ["b", "7"]), ("ann", ["é", "\u2028"]), ("6", []), ("7", ["1.5"])]
READ_CSV = [
    ("ann", ["a", "b"]),
    ("two\nlines", ["c", "d"]),
    ("only one", []),
    ('quoted "user"', ["e"]),
    ("last", ["open"]),
]


def read(text, kind, name="it"):
    source = text_source(io.StringIO(text, newline=""), name, kind)
    windows = list(source.windows)
    return [one for window in windows for one in parse(window, source.layout)], windows


@pytest.mark.parametrize(("text", "kind", "expected"), [(JSON, ".jsonl", READ_JSON), (CSV, ".csv", READ_CSV)])
@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_windows_lose_and_join_nothing(monkeypatch, text, kind, expected, rows):
    """A row of CSV may have several lines, and a line of JSON may have other line ends inside."""
    monkeypatch.setattr(histories, "WINDOW", rows)
    found, windows = read(text, kind)
    assert [(user, list(items)) for user, items in found] == expected
    assert len(windows) > 1 or rows == 100
    header = 0 if kind == ".jsonl" else len("user,items\n")
    assert sum(window.size for window in windows) == len(text.encode()) - header


def test_long_lines_make_small_windows(monkeypatch):
    """Four thousand histories of a megabyte each are not held at once."""
    monkeypatch.setattr(histories, "WINDOW_BYTES", 100)
    for kind, text in ((".jsonl", '["a"]\n' * 100), (".csv", "user,items\n" + "u,a b\n" * 100)):
        found, windows = read(text, kind)
        assert len(found) == 100 and all(window.size <= 106 for window in windows)


def test_a_broken_line_is_named_by_its_number_in_the_file(monkeypatch):
    monkeypatch.setattr(histories, "WINDOW", 2)
    with pytest.raises(UserError, match=r"Line 6 of 'it' is not JSON"):
        read('["a"]\n' * 5 + '["b"\n', ".jsonl")
    with pytest.raises(UserError, match=r"Line 3 of 'it' has the item True"):
        read('["a"]\n["a"]\n[true]\n', ".jsonl")


def table(folder, **columns):
    pq.write_table(pa.table(columns), folder / "it.parquet", row_group_size=3)
    with open_histories(str(folder / "it.parquet")) as source:
        assert source.total == len(next(iter(columns.values())))
        found = (one for window in source.windows for one in parse(window, source.layout))
        return [(user, list(items)) for user, items in found]


WORDS = [["a", "b"], [], ["c"], ["a"], ["b", "b"], ["d"], ["e"]]


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.string()), pa.large_list(pa.large_string())],
    ids=str,
)
@pytest.mark.parametrize("rows", [2, 5, 100])
def test_parquet_lists_of_any_width(tmp_path, monkeypatch, kind, rows):
    """Windows cross row groups of three; a user without a name is the number of the row."""
    monkeypatch.setattr(parquet, "WINDOW", rows)
    users = ["u", None, "w", "x", "y", "z", "é"]
    found = table(tmp_path, history=pa.array(WORDS, kind), user=pa.array(users))
    assert found == list(zip(["u", "2", "w", "x", "y", "z", "é"], WORDS))
    assert table(tmp_path, history=pa.array(WORDS, kind))[6] == ("7", ["e"])


def test_parquet_numbers_are_tokens(tmp_path):
    assert table(tmp_path, user=pa.array([4, 5]), history=pa.array([[1, 2], [30]])) == [
        ("4", ["1", "2"]),
        ("5", ["30"]),
    ]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"items": pa.array([["a"]])}, "must have a column 'history'; it has items"),
        ({"history": pa.array(["a b"])}, "must hold lists of items, but holds string"),
        ({"history": pa.array([[True]])}, "holds lists of bool; an item is a text or a number"),
        ({"history": pa.array([[["a"]]])}, "an item is a text or a number"),
        (
            {"history": pa.array([["a"]], pa.list_(pa.dictionary(pa.int32(), pa.string())))},
            "holds lists of dictionary.*an item is a text or a number",
        ),
        ({"history": pa.array([["a"], None])}, "Row 2 of .* has no history; give it an empty list"),
        ({"history": pa.array([["a"], ["a", None]])}, "Row 2 of .* has the item None"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_parquet_mistakes(tmp_path, columns, says):
    with pytest.raises(UserError, match=says):
        table(tmp_path, **columns)


def test_files_that_are_no_parquet(tmp_path):
    file = tmp_path / "it.parquet"
    for content in (b"", b"no table", b"PAR1" + b"x" * 100 + b"PAR1"):
        file.write_bytes(content)
        with pytest.raises(UserError, match="is not a Parquet file"), open_histories(str(file)):
            pass
    table(tmp_path, history=pa.array([["a"] * 50] * 500))
    whole = bytearray(file.read_bytes())
    whole[10:40] = b"x" * 30
    file.write_bytes(whole)
    with pytest.raises(UserError, match="cannot be read from row 1 on"), open_histories(str(file)) as source:
        list(source.windows)


def test_without_pyarrow_the_command_that_installs_it_is_named(tmp_path, monkeypatch):
    table(tmp_path, history=pa.array(WORDS))

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with (
        pytest.raises(UserError, match="Run: pip install pyarrow"),
        open_histories(str(tmp_path / "it.parquet")),
    ):
        pass


def test_parquet_results_are_written_in_groups_of_many_windows(tmp_path, monkeypatch):
    """What comes out is what went in, rows without an item among them."""
    monkeypatch.setattr(parquet, "_ROW_GROUP", 5)
    results = parquet.ParquetResults(["[PAD]", "a", "é", "c"])
    best = TopItems(
        torch.tensor([[0.5, 0.25], [-torch.inf] * 2, [1.0, -torch.inf]]),
        torch.tensor([[1, 2], [0, 0], [3, 1]]),
    )
    part, target = tmp_path / "part", tmp_path / "best.parquet"
    part.write_bytes(results.header + b"".join(results.format(["u", "v", "w\ud800"], best) for _ in range(4)))
    results.finish(part, target)
    assert not part.exists() and pq.ParquetFile(target).num_row_groups == 2
    rows = pq.read_table(target).to_pylist()
    assert rows[:3] == [
        {"user": "u", "items": ["a", "é"], "scores": [0.5, 0.25]},
        {"user": "v", "items": [], "scores": []},
        {"user": "w\\ud800", "items": ["c"], "scores": [1.0]},
    ]
    assert len(rows) == 12
