"""A saved model serves users it has never seen, from tokens to tokens."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers import SMALL, STOCK
from recbole.quick_start import run_recbole

from recbole_asarrec import Recommender, UserError, recommend
from recbole_asarrec.__main__ import main


@pytest.fixture
def model_file(trained, workplace):
    """The trained model, seen from an empty folder that can read its data."""
    (workplace / "dataset").symlink_to(trained / "dataset")
    (file,) = (trained / "saved").glob("*.pth")
    return file


@pytest.mark.learning
def test_it_knows_the_next_item_of_a_walk(model_file):
    """From wherever three steps of the walk are taken, the fourth comes first, and clearly so.

    Worst of 18: always first, by 2.1. After 12 epochs of walks that skip it was first in 10 to 14 of 30.
    """
    walks = [[f"i{(first + step) % 30}" for step in range(3)] for first in range(30)]
    for first, found in enumerate(recommend(model_file, walks, k=3)):
        assert found.items[0] == f"i{(first + 3) % 30}" and len(found.items) == 3
        assert found.scores[0] > found.scores[1] + 1 and found.scores[1] >= found.scores[2]


def test_batches_and_padding_do_not_change_the_answer(model_file):
    """Scores of the whole catalogue, item by item: the order of near ties is anybody's."""
    model = Recommender(model_file)
    histories = [[f"i{(s + t) % 30}" for t in range(1 + s % 20)] for s in range(40)]
    together = list(model.stream(histories, k=30, batch_size=40))
    for history, one in zip(histories, together, strict=True):
        (alone,) = model.stream([history], k=30, batch_size=1)
        expected = dict(zip(alone.items, alone.scores, strict=True))
        assert dict(zip(one.items, one.scores, strict=True)) == pytest.approx(expected, abs=1e-4)


def is_recboles_ranking(file):
    """Whether the scores of a user's items are those that RecBole's case study gives."""
    from recbole.quick_start import load_data_and_model
    from recbole.utils.case_study import full_sort_topk

    _, model, dataset, _, _, test_data = load_data_and_model(str(file))
    user = dataset.token2id("user_id", "u5")
    row = test_data._dataset.inter_feat[test_data._dataset.inter_feat["user_id"] == user]
    history = dataset.id2token("item_id", row["item_id_list"][0][: row["item_length"][0]])
    scores, items = full_sort_topk([user], model, test_data, k=30)
    expected = dict(zip(dataset.id2token("item_id", items[0]).tolist(), scores[0].tolist(), strict=True))
    (found,) = recommend(file, [list(history)], k=30)
    return dict(zip(found.items, found.scores, strict=True)) == pytest.approx(expected, abs=1e-4)


def test_it_equals_recboles_own_ranking(model_file):
    assert is_recboles_ranking(model_file)


def test_stock_models_recommend_too(toy):
    run_recbole(model="SASRec", dataset="toy", config_dict={**SMALL, **STOCK, "epochs": 1})
    (file,) = (toy / "saved").glob("*.pth")
    assert is_recboles_ranking(file)


def test_history_can_be_left_out(model_file):
    history = ["i3", "i4", "i5"]
    (best,) = recommend(model_file, [history], k=1000, exclude_history=True)
    assert not set(best.items) & set(history) and len(best.items) == 27
    (everything,) = recommend(model_file, [history], k=1000)
    assert len(everything.items) == 30 and "[PAD]" not in everything.items


def test_unknown_items_are_counted_or_refused(model_file, caplog):
    with caplog.at_level("WARNING"):
        known, partly, empty = recommend(model_file, [["i3"], ["i3", "moon", "sun"], ["moon"]], k=4)
    assert known.items == partly.items and empty == ([], [])
    assert "3 items that training never saw were skipped; 1 histories" in caplog.text
    with pytest.raises(UserError, match="'moon' is not in the catalogue"):
        recommend(model_file, [["i3", "moon"]], unknown="refuse")


@pytest.mark.parametrize("k", [0, -1, 2.5, True])
def test_k_must_be_a_positive_whole_number(model_file, k):
    with pytest.raises(UserError, match="k must be"):
        recommend(model_file, [["i3"]], k=k)


def test_a_string_is_not_a_history(model_file):
    with pytest.raises(UserError, match="must be a list"):
        recommend(model_file, ["i3"])


def test_parquet_in_and_out_says_what_json_lines_say(model_file, workplace):
    """The scores of a table are not rounded; else the formats agree."""
    histories = [["i3", "i4"], [], ["i7"]]
    pq.write_table(pa.table({"user": ["ann", "bob", "cy"], "history": histories}), "in.parquet")
    assert main(["recommend", str(model_file), "in.parquet", "-o", "out.parquet", "-k", "2"]) == 0
    assert main(["recommend", str(model_file), "in.parquet", "-o", "out.jsonl", "-k", "2"]) == 0
    lines = [json.loads(line) for line in (workplace / "out.jsonl").read_text().splitlines()]
    for row, line in zip(pq.read_table("out.parquet").to_pylist(), lines, strict=True):
        assert row["scores"] == pytest.approx(line.pop("scores"), abs=1e-6)
        assert {name: row[name] for name in line} == line


def test_command_line_reads_and_writes_json_lines_and_csv(model_file, workplace, capsys):
    toy = workplace
    (toy / "in.jsonl").write_text('["i3", "i4"]\n\n{"user": "ann", "history": ["i7"]}\n')
    assert main(["recommend", str(model_file), "in.jsonl", "-o", "out.jsonl", "-k", "2"]) == 0
    lines = [json.loads(line) for line in (toy / "out.jsonl").read_text().splitlines()]
    assert [line["user"] for line in lines] == ["1", "ann"] and all(len(line["items"]) == 2 for line in lines)

    (toy / "in.csv").write_text("user,items\nann,i7\n")
    assert main(["recommend", str(model_file), "in.csv", "-o", "out.csv", "-k", "2"]) == 0
    rows = list(csv.DictReader((toy / "out.csv").open()))
    assert [row["item"] for row in rows] == lines[1]["items"] and rows[1]["rank"] == "2"

    assert main(["recommend", str(model_file), "in.csv", "-o", "out.csv"]) == 2
    assert "exists; choose another name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["none.pth", "in.jsonl"], "does not exist"),
        (["{model}", "none.jsonl"], "does not exist"),
        (["{model}", "bad.jsonl"], "Line 2 of 'bad.jsonl' is not JSON"),
        (["{model}", "number.jsonl"], "must be a list"),
        (["{model}", "bad.csv"], "columns user,items"),
        (["{model}", "in.jsonl", "-k", "0"], "k must be"),
        (["{model}", "in.jsonl", "--jobs", "0"], "--jobs must be at least 1, but is 0"),
        (["{model}", "none.parquet"], "does not exist; name a .jsonl, .csv or .parquet file"),
        (["{model}", "text.parquet"], "is not a Parquet file"),
        (["{model}", "in.jsonl", "-o", "no/where.jsonl"], "does not exist; make it"),
    ],
)
def test_command_line_mistakes_get_one_sentence(model_file, workplace, capsys, arguments, says):
    toy = workplace
    (toy / "in.jsonl").write_text('["i3"]\n')
    (toy / "bad.jsonl").write_text('["i3"]\n["i4"\n')
    (toy / "number.jsonl").write_text("7\n")
    (toy / "bad.csv").write_text("a,b\n1,2\n")
    (toy / "text.parquet").write_text("history")
    assert main(["recommend", *(a.format(model=model_file) for a in arguments)]) == 2
    error = capsys.readouterr().err
    assert says in error and "Traceback" not in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "word"), [(["--help"], "recommend"), (["recommend", "--help"], "JSON lines")]
)
def test_help_answers(capsys, arguments, word):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0 and word in capsys.readouterr().out
