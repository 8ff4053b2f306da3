"""What is exported recommends as the model itself does; what cannot be is refused with the reason."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import SMALL, STOCK, keys_of, write_atomic
from recbole.quick_start import run_recbole

import recbole_asarrec.export.command as exporting
from recbole_asarrec import ExportError, UserError, recommend
from recbole_asarrec.__main__ import main
from recbole_asarrec.export import export_checkpoint, export_model
from recbole_asarrec.export.encoder import HistoryEncoder
from recbole_asarrec.export.onnx_graph import RealFilterLayer, check, to_onnx
from recbole_asarrec.models.fmlprec import FilterLayer
from recbole_asarrec.serving import Recommender
from recbole_asarrec.serving.recommender import Encoder

TOKENS = [f"i{number}" for number in range(120)]  # of a catalogue without data
ASKED = {"model": "it", "dataset": "toy"}
# lengths from 1 to beyond L = 50, repeated items among them
HISTORIES = [[f"i{(first * 7 + step * step) % 30}" for step in range(1 + first * 3)] for first in range(20)]


def train(model, **keys):
    """A checkpoint after one epoch: what was learned does not matter here."""
    run_recbole(model=model, dataset="toy", config_dict={**keys, "epochs": 1, "checkpoint_dir": model})
    (file,) = Path(model).absolute().glob("*.pth")
    return file


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["pytest"])
        write_atomic(folder / "dataset", "toy")
        return train("AsarSASRec", **SMALL)


@pytest.fixture
def model_file(saved, workplace):
    """An AsarSASRec, seen from an empty folder."""
    return saved


def assert_same(file, folder, **options):
    """Every item of the catalogue gets the score that the model's own full_sort_predict gives, to 1e-4, and
    the first ten are the same items wherever two neighbours in the ranking are further apart than that."""
    model = Recommender(folder)
    expected = recommend(file, HISTORIES, k=30, **options)
    found = model.recommend(HISTORIES, k=30, **options)
    short = model.recommend(HISTORIES, k=10, **options)
    assert any(len(one.items) > 20 for one in expected)
    for one, other, first in zip(expected, found, short, strict=True):
        scores = dict(zip(one.items, one.scores, strict=True))
        assert dict(zip(other.items, other.scores, strict=True)) == pytest.approx(scores, abs=1e-4)
        assert [scores[item] for item in other.items] == pytest.approx(one.scores, abs=2e-4)
        assert first.items == other.items[:10]


def test_asarsasrec_is_the_same_without_torch(model_file, workplace):
    info = export_checkpoint(model_file, "out").info
    assert_same(model_file, "out")
    assert_same(model_file, "out", exclude_history=True)
    assert info["model"] == "AsarSASRec" and info["num_items"] == 30 and info["settings"]["hidden_size"] == 16
    assert list(info["metrics"]["validation"]) == ["NDCG@10"] and info["verified"]["histories"] == 64
    assert not {"data_path", "checkpoint_dir", "device"} & set(info["settings"])


@pytest.mark.parametrize("backbone", ["GRU4Rec", "FMLPRec"])
def test_other_backbones_are_the_same_without_torch(toy, backbone):
    """FMLP-Rec's filter spans all L positions, so its encoder has to pad."""
    file = train(f"Asar{backbone}", **keys_of(backbone))
    export_checkpoint(file, "out")
    assert_same(file, "out")


def test_a_stock_model_is_the_same_without_torch(toy):
    file = train("SASRec", **SMALL, **STOCK)
    export_checkpoint(file, "out")
    assert_same(file, "out")


def untrained(name, **keys):
    """A model with random weights, of a catalogue without data."""
    from recbole.config import Config
    from recbole.utils import get_model

    from benchmarks.serving import Catalogue

    quiet = {"state": "ERROR", "MAX_ITEM_LIST_LENGTH": 9, **keys}
    config = Config(name, "ml-100k", config_dict={**STOCK, **quiet})
    config["device"] = torch.device("cpu")
    torch.manual_seed(3)
    return get_model(name)(config, Catalogue(len(TOKENS), 9))


@pytest.mark.parametrize("name", ["NARM", "NextItNet", "AsarSTAMP"])
def test_recboles_other_models_with_inner_products_export_too(workplace, name):
    keys = {"block_num": 1} if name == "NextItNet" else {}
    model = untrained(name, **keys)
    export_model(model, TOKENS, "out", ASKED)
    encoder = HistoryEncoder(model)
    items = torch.tensor([[5, 7, 5, 0, 0, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6, 7, 8, 9]])
    with torch.no_grad():
        scores = encoder(items) @ model.item_embedding.weight[1:].T
    found = Recommender("out").recommend([["i4", "i6", "i4"], [f"i{i}" for i in range(9)]], k=120)
    for one, row in zip(found, scores, strict=True):
        expected = {f"i{number}": score for number, score in enumerate(row.tolist())}
        assert dict(zip(one.items, one.scores, strict=True)) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("CORE", "its scores are not the inner products of the encoded history and the item embeddings"),
        ("RepeatNet", "it has no item embedding of its own"),
        ("BERT4Rec", "it has 122 item embeddings for 120 items"),
        ("SRGNN", "its encoder is not one graph for all histories"),
        ("GRU4RecCPR", "its scores need 'item_id' besides the history"),
    ],
)
def test_what_cannot_be_exported_is_refused_with_the_reason(workplace, name, reason):
    with pytest.raises(ExportError, match=f"^{name} cannot be exported: {reason}"):
        export_model(untrained(name), TOKENS, "out", ASKED)
    assert not list(workplace.glob("out*"))


def test_weights_that_are_not_finite_are_refused(workplace):
    model = untrained("SASRec")
    with torch.no_grad():
        model.item_embedding.weight[3] = float("nan")
    with pytest.raises(ExportError, match="its scores are not finite"):
        export_model(model, TOKENS, "out", ASKED)


def test_a_graph_that_differs_is_refused(workplace):
    """The comparison with torch is worth something only if it finds another model's graph."""
    model, other = untrained("SASRec"), untrained("SASRec")
    with torch.no_grad():
        other.position_embedding.weight[1, 0] += 0.1
    encoder = HistoryEncoder(model)
    vectors = model.item_embedding.weight[1:].detach()
    assert check(encoder, to_onnx(encoder), vectors, 16) < 1e-5
    with pytest.raises(ExportError, match="ONNX Runtime's scores differ from torch's by"):
        check(encoder, to_onnx(HistoryEncoder(other)), vectors, 16)


def test_the_model_is_as_it_was_afterwards(workplace):
    """FMLP-Rec's filters are replaced while the graph is written."""
    model = untrained("FMLPRec")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    export_model(model, TOKENS, "out", ASKED)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(isinstance(block.mix, FilterLayer) for block in model.blocks)


@pytest.mark.parametrize("length", [1, 2, 8, 9])
def test_the_filter_without_complex_numbers_is_the_filter(length):
    """Even and odd lengths differ in their highest frequency."""
    torch.manual_seed(0)
    layer = FilterLayer(length, 6, 0.5, 1e-12, 1.0).eval()
    real, hidden = RealFilterLayer(layer, length), torch.randn(3, length, 6)
    with torch.no_grad():
        assert torch.allclose(real(hidden), layer(hidden), atol=1e-5)
        assert torch.allclose(real.last(hidden), layer.last(hidden), atol=1e-5)


def test_the_graph_takes_any_batch_and_length(workplace):
    encoder = HistoryEncoder(untrained("AsarSASRec"))
    run = Encoder(to_onnx(encoder), 64)
    for batch, width in ((1, 1), (1, 9), (7, 4)):
        items = torch.randint(1, 121, (batch, width))
        with torch.no_grad():
            assert np.allclose(run(items.numpy()), encoder(items).numpy(), atol=1e-5)


class TestFolder:
    """It appears whole or not at all, and nothing else is ever replaced."""

    def test_a_failure_leaves_nothing(self, model_file, workplace, monkeypatch):
        def fail(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr(exporting, "ExportedRecommender", fail)
        with pytest.raises(KeyboardInterrupt):
            export_checkpoint(model_file, "out")
        assert not list(workplace.iterdir())

    def test_a_failure_keeps_what_was_there(self, model_file, workplace, monkeypatch):
        export_checkpoint(model_file, "out")
        before = (workplace / "out" / "model.json").read_bytes()
        monkeypatch.setattr(exporting, "_checksum", lambda path: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            export_checkpoint(model_file, "out", overwrite=True)
        assert [path.name for path in workplace.iterdir()] == ["out"]
        assert (workplace / "out" / "model.json").read_bytes() == before
        Recommender("out")

    def test_overwriting_leaves_no_file_of_the_old_export(self, model_file, workplace):
        export_checkpoint(model_file, "out", ann=True)
        assert (workplace / "out" / "items.faiss").is_file()
        with pytest.raises(ExportError, match="exists; choose another name or add --overwrite"):
            export_checkpoint(model_file, "out")
        export_checkpoint(model_file, "out", overwrite=True)
        names = {path.name for path in (workplace / "out").iterdir()}
        assert names == {"encoder.onnx", "items.npy", "items.txt", "model.json"}
        assert [path.name for path in workplace.iterdir()] == ["out"]

    def test_other_folders_are_left_alone(self, model_file, workplace):
        (workplace / "thesis").mkdir()
        (workplace / "thesis" / "chapter.tex").write_text("x")
        for name, says in {
            "thesis": "other things than an exported model",
            "no/out": "does not exist",
        }.items():
            with pytest.raises(ExportError, match=says):
                export_checkpoint(model_file, name, overwrite=True)
        with pytest.raises(ExportError, match="is a file"):
            export_checkpoint(model_file, "thesis/chapter.tex")
        assert (workplace / "thesis" / "chapter.tex").read_text() == "x"
        (workplace / "empty").mkdir()
        export_checkpoint(model_file, "empty")
        Recommender("empty")

    def test_a_token_with_a_line_break_is_refused(self, workplace):
        with pytest.raises(ExportError, match="has a line break"):
            export_model(untrained("SASRec"), ["a\nb", *TOKENS[1:]], "out", ASKED)

    def test_tokens_may_have_every_other_letter(self, workplace):
        """``str.splitlines`` would break at some of them."""
        strange = ["a b", "x\r", "\x85", "\u2028", "Война", ""]
        tokens = [*strange, *TOKENS[len(strange) :]]
        export_model(untrained("SASRec"), tokens, "out", ASKED)
        (found,) = Recommender("out").recommend([["a b"]], k=120)
        assert set(found.items) == set(tokens)


def test_the_command_says_what_it_did(model_file, workplace, capsys):
    assert main(["export", str(model_file), "-o", "out", "--ann"]) == 0
    said = capsys.readouterr().out
    assert "AsarSASRec on toy: 30 items, vectors of 16, histories of up to 50 items" in said
    assert "ONNX Runtime's scores are torch's on 64 random histories" in said and "recall@10" in said
    recall = json.loads((workplace / "out" / "model.json").read_text())["index"]["recall"]
    assert recall["queries"] == 1000 and recall["k"] == 10 and 0 <= recall["value"] <= 1
    assert main(["export", str(model_file), "-o", "out"]) == 2
    assert "Error: The folder 'out' exists" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["onnx", "onnxruntime", "faiss"])
def test_a_missing_extra_answers_with_the_command(model_file, workplace, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    package = "faiss-cpu" if missing == "faiss" else missing
    with pytest.raises(UserError, match=f"Run: pip install {package}"):
        export_checkpoint(model_file, "out", ann=True)
    assert not list(workplace.iterdir())
