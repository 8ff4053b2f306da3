"""A folder from elsewhere is data: what was changed or makes no sense is refused in a sentence."""

import json
import os
import pickle

import numpy as np
import onnx
import pytest
from serving.made_folder import as_npy, graph, vectors, write

from recbole_asarrec.serving import ExportError, Recommender

FILES = ("encoder.onnx", "items.npy", "items.txt")


class Hostile:
    def __reduce__(self):
        return os.mkdir, ("pwned",)


@pytest.mark.parametrize("name", [*FILES, "items.faiss"])
@pytest.mark.parametrize("change", ["flip", "longer", "shorter", "gone", "folder"])
def test_a_changed_file_is_refused(workplace, name, change):
    """The index too, where exact search does not even use it."""
    path = write(workplace / "out", contents={"items.faiss": b"index"}) / name
    Recommender("out")
    content = bytearray(path.read_bytes())
    path.unlink()
    if change == "folder":
        path.mkdir()
    elif change != "gone":
        content[len(content) // 2] ^= change == "flip"
        path.write_bytes(
            bytes(content) + b"x" if change == "longer" else content[: len(content) - (change == "shorter")]
        )
    with pytest.raises(ExportError, match=f"{name}"):
        Recommender("out")


def test_code_in_the_vectors_is_not_run(workplace):
    """With a checksum that fits: a pickle inside .npy, and a bare pickle."""
    for content in (as_npy(np.array([[Hostile()]], dtype=object)), pickle.dumps(Hostile())):
        write(workplace / "out", contents={"items.npy": content})
        with pytest.raises(ExportError, match=r"items\.npy"):
            Recommender("out")
    assert not os.path.exists("pwned")


@pytest.mark.parametrize(
    "array",
    [
        vectors(49),
        vectors(50, 5),
        vectors().astype(np.float64),
        np.asfortranarray(vectors()),
        np.full((50, 4), np.nan, np.float32),
        np.full((50, 4), np.inf, np.float32),
        vectors().reshape(-1),
    ],
    ids=["rows", "columns", "double", "by columns", "nan", "infinite", "flat"],
)
def test_vectors_that_do_not_fit_are_refused(workplace, array):
    write(workplace / "out", contents={"items.npy": as_npy(array)})
    with pytest.raises(ExportError, match=r"items\.npy"):
        Recommender("out")


@pytest.mark.parametrize(
    "text",
    [b"i1\n" * 50, b"i1\ni2\n", b"\xff\n" * 50, b"", "".join(f"i{n}\n" for n in range(50)).encode()[:-1]],
    ids=["twice", "few", "no UTF-8", "empty", "no last line break"],
)
def test_tokens_that_do_not_fit_are_refused(workplace, text):
    write(workplace / "out", contents={"items.txt": text})
    with pytest.raises(ExportError, match=r"items\.txt"):
        Recommender("out")


def external(location):
    """A graph whose weights are said to lie in another file."""
    made = graph(np.zeros((51, 4), np.float32))
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": "0", "length": "816"}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return made.SerializeToString()


@pytest.mark.parametrize("location", ["secret", "../secret", "out/secret", "an absolute path"])
def test_a_graph_reads_no_other_file(workplace, location):
    """ONNX Runtime would take one from the current folder."""
    (workplace / "secret").write_bytes(bytes(816))
    where = str(workplace / "secret") if location == "an absolute path" else location
    write(workplace / "out", contents={"encoder.onnx": external(where)})
    (workplace / "out" / "secret").write_bytes(bytes(816))
    with pytest.raises(ExportError, match=r"encoder\.onnx cannot be opened"):
        Recommender("out")


@pytest.mark.parametrize(
    "content",
    [
        b"nothing of the kind",
        graph(np.zeros((51, 4), np.float32), onnx.TensorProto.INT32).SerializeToString(),
    ],
    ids=["garbage", "other types"],
)
def test_a_graph_that_is_no_encoder_is_refused(workplace, content):
    write(workplace / "out", contents={"encoder.onnx": content})
    with pytest.raises(ExportError, match=r"encoder\.onnx"):
        Recommender("out")


def test_a_graph_of_another_size_is_refused(workplace):
    write(
        workplace / "out", contents={"encoder.onnx": graph(np.zeros((51, 3), np.float32)).SerializeToString()}
    )
    with pytest.raises(ExportError, match=r"float vectors \[B, 4\]"):
        Recommender("out").recommend([["i3"]])


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"format": 2}, "has the format 2, but this release reads 1"),
        ({"format": None}, "has the format None"),
        ({"num_items": 10**12}, "num_items must be a whole number"),
        ({"num_items": 0}, "num_items must be a whole number"),
        ({"num_items": True}, "num_items must be a whole number"),
        ({"num_items": 51}, "51 different tokens"),
        ({"dim": 10**9}, "dim must be a whole number"),
        ({"dim": 4.0}, "dim must be a whole number"),
        ({"max_length": "50"}, "max_length must be a whole number"),
        ({"files": None}, "files must name"),
        ({"files": ["items.npy"]}, "files must name"),
        ({"files": {}}, "files must name"),
    ],
    ids=str,
)
def test_a_description_that_makes_no_sense_is_refused(workplace, keys, says):
    write(workplace / "out", **keys)
    with pytest.raises(ExportError, match=says):
        Recommender("out")


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/hostname", "model.json", "code.py", "C:\\x", "items.npy/../x"]
)
def test_a_description_names_no_other_file(workplace, name):
    write(workplace / "out")
    file = workplace / "out" / "model.json"
    content = json.loads(file.read_text())
    content["files"][name] = content["files"]["items.npy"]
    file.write_text(json.dumps(content))
    with pytest.raises(ExportError, match="files must name"):
        Recommender("out")


@pytest.mark.parametrize(
    "entry",
    [
        None,
        5,
        {"bytes": 10**18, "sha256": "0" * 64},
        {"bytes": -1, "sha256": "0" * 64},
        {"bytes": 7, "sha256": 7},
        {},
    ],
    ids=str,
)
def test_absurd_sizes_are_refused_before_anything_is_read(workplace, entry):
    write(workplace / "out")
    file = workplace / "out" / "model.json"
    content = json.loads(file.read_text())
    content["files"]["items.npy"] = entry
    file.write_text(json.dumps(content))
    with pytest.raises(ExportError, match=r"items\.npy"):
        Recommender("out")


@pytest.mark.parametrize(
    "text",
    ["", "nothing", "[]", "[" * 100_000, '{"format": 1', "\ufeff{}", " " * (5 << 20)],
    ids=["empty", "text", "list", "deep", "cut", "mark", "5 MiB"],
)
def test_a_description_that_cannot_be_read_is_refused(workplace, text):
    write(workplace / "out")
    (workplace / "out" / "model.json").write_text(text, encoding="utf-8")
    with pytest.raises(ExportError, match=r"model\.json"):
        Recommender("out")


@pytest.mark.parametrize("folder", ["nowhere", "empty", "file"])
def test_what_is_no_exported_folder_is_named(workplace, folder):
    (workplace / "empty").mkdir()
    (workplace / "file").write_text("x")
    with pytest.raises(ExportError, match=folder):
        Recommender(folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes in folders")
def test_a_pipe_is_not_waited_for(workplace):
    path = write(workplace / "out") / "items.npy"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ExportError, match="is not a file"):
        Recommender("out")


class TestIndex:
    def indexed(self, folder, content, **said):
        return write(folder, contents={"items.faiss": content}, index=said)

    def test_garbage_is_refused(self, workplace):
        self.indexed(workplace / "out", b"nothing of the kind", ef_search=8)
        with pytest.raises(ExportError, match=r"items\.faiss' is not an index"):
            Recommender("out", search="ann")

    @pytest.mark.parametrize(
        "said", [{}, {"ef_search": 0}, {"ef_search": 10**9}, {"ef_search": "8"}], ids=str
    )
    def test_its_width_must_make_sense(self, workplace, said):
        self.indexed(workplace / "out", b"x", **said)
        with pytest.raises(ExportError, match="ef_search"):
            Recommender("out", search="ann")

    @pytest.mark.parametrize("other", ["kind", "size", "metric", "number"])
    def test_an_index_of_something_else_is_refused(self, workplace, other):
        import faiss

        metric = faiss.METRIC_L2 if other == "metric" else faiss.METRIC_INNER_PRODUCT
        dim, number = (5 if other == "size" else 4), (49 if other == "number" else 50)
        index = faiss.IndexFlatIP(dim) if other == "kind" else faiss.IndexHNSWFlat(dim, 8, metric)
        index.add(vectors(number, dim))
        self.indexed(workplace / "out", faiss.serialize_index(index).tobytes(), ef_search=8)
        with pytest.raises(ExportError, match="is not an index of the item vectors in this folder"):
            Recommender("out", search="ann")
