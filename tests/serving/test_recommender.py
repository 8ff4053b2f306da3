"""The served model beside a naive reference: look up, add, multiply, sort."""

import logging
import subprocess
import sys
import threading

import numpy as np
import pytest
from helpers import ROOT
from serving.made_folder import MAX_LENGTH, vectors, write

from recbole_asarrec.environment import REQUIRED
from recbole_asarrec.export import index as indexing
from recbole_asarrec.serving import ExportError, Recommended, Recommender, UserError, exact
from recbole_asarrec.serving.exact import top_k

ITEMS = vectors()
RNG = np.random.default_rng(1)
HISTORIES = [[f"i{item}" for item in RNG.integers(50, size=size)] for size in (1, 2, 6, 7, 20, 3)]


def naive(histories, k, exclude_history=False):
    """Every score of every item, sorted."""
    answers = []
    for history in histories:
        ids = [int(token[1:]) for token in history]
        scores = ITEMS @ ITEMS[ids[-MAX_LENGTH:]].sum(axis=0)
        kept = [item for item in range(50) if not (exclude_history and item in ids)]
        best = sorted(kept, key=lambda item: -scores[item])[:k]
        answers.append(([f"i{item}" for item in best], [scores[item] for item in best]))
    return answers


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("made") / "out")


@pytest.mark.parametrize("exclude_history", [False, True])
@pytest.mark.parametrize("k", [1, 7, 50, 10**12])
def test_it_is_the_naive_ranking(folder, k, exclude_history):
    """The whole history is left out, also what is older than the encoder reads."""
    found = Recommender(folder).recommend(HISTORIES, k, exclude_history, batch_size=4)
    for one, (items, scores) in zip(found, naive(HISTORIES, k, exclude_history), strict=True):
        assert one.items == items and one.scores == pytest.approx(scores, abs=1e-4)


def test_unknown_items_are_counted_or_refused(folder, caplog):
    """As the Recommender of a checkpoint does."""
    model = Recommender(folder)
    with caplog.at_level(logging.WARNING):
        one, other, none, empty = model.recommend([["i3"], ["moon", "i3", "sun"], ["moon"], []], k=4)
    assert one == other and none == empty == Recommended([], [])
    assert "3 items that training never saw were skipped; 2 histories had no known item" in caplog.text
    with pytest.raises(UserError, match="'moon' is not in the catalogue"):
        model.recommend([["i3", "moon"]], unknown="refuse")
    assert "i3" in model and "moon" not in model and len(model) == 50


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"k": 0}, "k must be"),
        ({"k": True}, "k must be"),
        ({"k": 2.5}, "k must be"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"unknown": "guess"}, "unknown must be"),
        ({"histories": ["i3"]}, "must be a list of item tokens"),
    ],
)
def test_bad_arguments_get_a_sentence(folder, options, says):
    with pytest.raises(UserError, match=says):
        Recommender(folder).recommend(**{"histories": [["i3"]], **options})


@pytest.mark.parametrize(
    ("options", "says"), [({"search": "fast"}, "search must"), ({"threads": 0}, "threads")]
)
def test_bad_options_get_a_sentence(folder, options, says):
    with pytest.raises(UserError, match=says):
        Recommender(folder, **options)


def test_histories_are_streamed(folder):
    """A generator that never ends is read one batch ahead, not to its end."""
    read = []

    def endless():
        while True:
            read.append(1)
            yield ["i3"]

    stream = Recommender(folder).stream(endless(), batch_size=8)
    assert [len(next(stream).items) for _ in range(9)] == [10] * 9 and len(read) == 16


def test_several_threads_get_their_own_answers(folder):
    model, answers = Recommender(folder, threads=1), {}

    def ask(number):
        answers[number] = [model.recommend([HISTORIES[number]], k=5)[0].items for _ in range(50)]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(HISTORIES))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, (items, _) in enumerate(naive(HISTORIES, 5)):
        assert answers[number] == [items] * 50


class TestExactSearch:
    @pytest.mark.parametrize("k", [1, 5, 37, 300])
    @pytest.mark.parametrize("held", [64, 1000, 1 << 22])
    def test_blocks_do_not_change_the_answer(self, monkeypatch, held, k):
        """Blocks of 64 / 8 columns, or of k where that is more, and the whole at once."""
        monkeypatch.setattr(exact, "_SCORES", held)
        rng = np.random.default_rng(held + k)
        users, items = rng.normal(size=(8, 5)), rng.normal(size=(300, 5))
        out = [rng.choice(300, size=size, replace=False) for size in (0, 1, 3, 9, 50, 299, 300, 2)]
        score, row = top_k(users.astype(np.float32), items.astype(np.float32), k, out)
        scores = users @ items.T
        for user, left_out in enumerate(out):
            scores[user, left_out] = -np.inf
            order = np.argsort(-scores[user], kind="stable")[: min(k, 300 - len(left_out))]
            assert row[user, : len(order)].tolist() == order.tolist()
            assert np.allclose(score[user, : len(order)], scores[user, order], atol=1e-5)
            assert (score[user, len(order) :] == -np.inf).all()

    def test_of_equal_scores_the_first_row_comes_first(self, monkeypatch):
        monkeypatch.setattr(exact, "_SCORES", 7)
        _, row = top_k(np.ones((1, 1), np.float32), np.ones((40, 1), np.float32), 5)
        assert row.tolist() == [[0, 1, 2, 3, 4]]

    def test_memory_does_not_grow_with_the_catalogue(self, monkeypatch):
        """No array is wider than a block of the catalogue and the k best so far."""
        monkeypatch.setattr(exact, "_SCORES", 8 * 100)
        widest = []
        merge = exact._merge

        def watch(best_score, best_row, scores, start):
            widest.append(scores.shape[1])
            return merge(best_score, best_row, scores, start)

        monkeypatch.setattr(exact, "_merge", watch)
        top_k(np.ones((8, 2), np.float32), np.ones((5000, 2), np.float32), 3)
        assert len(widest) == 49 and max(widest) == 100


class TestApproximateSearch:
    @pytest.fixture(scope="class")
    def items(self):
        return vectors(3000, 8)

    @pytest.fixture(scope="class")
    def indexed(self, items, tmp_path_factory):
        import faiss

        made = indexing.build(items)
        said = indexing.tune(made, items, vectors(300, 8, seed=1))
        content = faiss.serialize_index(made).tobytes()
        return write(tmp_path_factory.mktemp("ann") / "out", items, {"items.faiss": content}, index=said)

    def test_the_written_recall_is_that_of_the_index(self, items, indexed):
        """Measured again with other queries, by counting."""
        said = Recommender(indexed, search="ann").info["index"]["recall"]
        assert said["value"] >= 0.99 and said["queries"] == 300 and said["k"] == 10
        histories = [[f"i{item}"] for item in range(0, 3000, 10)]
        one, other = (Recommender(indexed, search=search).recommend(histories) for search in ("exact", "ann"))
        hits = sum(len(set(a.items) & set(b.items)) for a, b in zip(one, other, strict=True))
        assert hits / 3000 > 0.97

    def test_recall_is_counted_by_user(self):
        found, right = np.array([[1, 2, -1], [4, 5, 6]]), np.array([[1, 3, 2], [7, 8, 9]])
        assert indexing.recall_of(found, right) == pytest.approx(2 / 6)

    def test_history_is_left_out_and_k_is_kept(self, indexed):
        """Also where the index finds too few: asked for nearly all, exact search answers."""
        model = Recommender(indexed, search="ann")
        history = [f"i{item}" for item in range(40)]
        for k in (10, 1400, 2960):
            (found,) = model.recommend([history], k, exclude_history=True)
            assert len(set(found.items)) == k and not set(found.items) & set(history)
            assert found.scores == sorted(found.scores, reverse=True)

    def test_an_index_that_finds_too_few_is_helped(self, indexed, monkeypatch):
        model = Recommender(indexed, search="ann")
        expected = Recommender(indexed).recommend([["i1"], ["i2"]])
        search = model._index.search

        def blind(users, k):
            score, row = search(users, k)
            score[1, 5:], row[1, 5:] = -np.inf, -1
            return score, row

        monkeypatch.setattr(model._index, "search", blind)
        found = model.recommend([["i1"], ["i2"]])[1]
        assert found.items == expected[1].items and found.scores == pytest.approx(
            expected[1].scores, abs=1e-5
        )

    def test_a_folder_without_an_index_says_so(self, folder):
        with pytest.raises(
            ExportError, match="has no index for approximate search; export the model with --ann"
        ):
            Recommender(folder, search="ann")


def test_it_needs_nothing_but_numpy_and_onnx_runtime(folder):
    """Whatever else this package requires is taken away."""
    missing = sorted({"recbole", "onnx", "faiss", "fastapi", *REQUIRED} - {"numpy"})
    script = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({missing!r}))\n"
        "from recbole_asarrec.serving import Recommender\n"
        f"print(Recommender({str(folder)!r}).recommend([['i3']], k=2)[0].items)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and done.stdout.strip() == str(naive([["i3"]], 2)[0][0]), done.stderr


@pytest.mark.parametrize("missing", ["onnxruntime", "faiss"])
def test_a_missing_package_answers_with_the_command(folder, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UserError, match="Run: pip install"):
        write(folder.parent / "indexed", contents={"items.faiss": b"x"}, index={"ef_search": 8})
        Recommender(folder.parent / "indexed", search="ann" if missing == "faiss" else "exact")
