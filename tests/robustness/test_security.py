"""Nobody is let in: files from outside are data, and what runs code when opened asks for a word of trust."""

import os
import pickle

import numpy as np
import pytest
from helpers import SMALL, build
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.quick_start import load_data_and_model, run_recbole
from robustness.hostile import try_everything

from recbole_asarrec.config.yaml_file import parse_yaml, read_yaml
from recbole_asarrec.data import cached_neighbours, caches
from recbole_asarrec.errors import ConfigError, DataError
from recbole_asarrec.training import checkpoint


def test_no_door_runs_code(workplace):
    """Each part of a checkpoint, RecBole's caches, the similarity cache and YAML, by all that read them."""
    tried, ran = try_everything(workplace)
    assert tried > 40 and ran == 0


class Hostile:
    def __reduce__(self):
        return os.mkdir, ("pwned",)


def test_the_campaign_would_notice(workplace):
    """The count of zero above is worth something only if such a file does run code once it is trusted."""
    (workplace / "bad.pth").write_bytes(pickle.dumps(Hostile()))
    with open("bad.pth", "rb") as file:
        caches.load(file, {"trust_cache": True})
    assert os.path.isdir("pwned")


def test_recboles_caches_ask_and_then_work(toy):
    keys = {**SMALL, "epochs": 1, "save_dataset": True, "save_dataloaders": True}
    first = run_recbole(model="AsarSASRec", dataset="toy", config_dict=dict(keys))
    with pytest.raises(DataError, match=r"toy-AsarDataset\.pth' is a pickle.*trust_cache: True"):
        run_recbole(model="AsarSASRec", dataset="toy", config_dict=dict(keys))
    again = run_recbole(model="AsarSASRec", dataset="toy", config_dict={**keys, "trust_cache": True})
    assert again["test_result"] == first["test_result"]


def test_saved_loaders_ask_too(toy):
    config = Config("AsarSASRec", "toy", config_dict={**SMALL, "save_dataloaders": True})
    data_preparation(config, create_dataset(config))
    with pytest.raises(DataError, match=r"dataloader\.pth' is a pickle"):
        data_preparation(config, create_dataset(config))


def test_a_broken_cache_is_named(toy):
    (toy / "saved").mkdir()
    (toy / "saved" / "toy-AsarDataset.pth").write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match="cannot be loaded.*move it away"):
        create_dataset(Config("AsarSASRec", "toy", config_dict={"trust_cache": True}))


def test_a_checkpoint_cannot_vouch_for_itself(toy):
    """Its configuration is data from outside: a word of trust in it counts for nothing."""
    run_recbole(
        model="AsarSASRec", dataset="toy", config_dict={**SMALL, "epochs": 1, "trust_checkpoint": True}
    )
    (file,) = (toy / "saved").glob("AsarSASRec-*.pth")
    state = checkpoint.read(file)
    assert state["config"]["trust_checkpoint"] is True
    state["config"].update(trust_cache=True, dataset_save_path="bad.pth")
    checkpoint.write(state, "trusting.pth")
    (toy / "bad.pth").write_bytes(pickle.dumps(Hostile()))
    with pytest.raises(DataError, match="trust_cache"):
        load_data_and_model("trusting.pth")
    assert not os.path.exists("pwned")


@pytest.mark.parametrize(
    "wrong",
    [
        np.full((31, 10), 31),
        np.full((31, 10), -1),
        np.zeros((31, 10)),
        np.zeros((3, 10), dtype=np.int64),
        np.array([None]),
    ],
    ids=["beyond the catalogue", "negative", "floats", "another shape", "objects"],
)
def test_a_wrong_similarity_cache_is_made_anew(toy, wrong):
    _, data, _ = build()
    dataset = data[0]._dataset
    right = cached_neighbours(dataset)
    (file,) = (toy / "dataset" / "toy").glob("*.npy")
    np.save(file, wrong, allow_pickle=True)
    assert np.array_equal(cached_neighbours(dataset), right)
    assert np.array_equal(np.load(file, allow_pickle=False), right)


def test_yaml_means_what_recbole_means(tmp_path):
    """The safe loader must not change a value that RecBole's own would read."""
    import yaml
    from recbole.config import Config

    text = "a: 1e-3\nb: .5e+2\nc: 1.5\nd: ~\ne: [1, 'x', True]\nf: {g: '1e-3'}\nh: 2020\ni: -1E+2\nj: 1_000\n"
    (tmp_path / "x.yaml").write_text(text)
    stock = yaml.load(text, Loader=Config.__new__(Config)._build_yaml_loader())
    assert read_yaml(tmp_path / "x.yaml") == stock


def test_every_file_of_recbole_is_read_alike():
    """RecBole's own property files are the best corpus of what people write."""
    from pathlib import Path

    import recbole
    import yaml
    from recbole.config import Config

    loader = Config.__new__(Config)._build_yaml_loader()
    files = list(Path(recbole.__file__).parent.rglob("properties/**/*.yaml"))
    assert len(files) > 100
    for file in files:
        content = file.read_bytes()
        assert parse_yaml(content, file.name) == (yaml.load(content.decode(), Loader=loader) or {}), file.name


def test_few_aliases_are_fine():
    assert parse_yaml(b"a: &a [1, 2]\nb: *a\nc: {<<: {x: 1}, x: 2}\n", "It")["b"] == [1, 2]
    tens = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    tens += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 6)]
    assert len(parse_yaml("\n".join(tens[:4]).encode(), "It")) == 4
    with pytest.raises(ConfigError, match="100,000 values"):
        parse_yaml("\n".join(tens).encode(), "It")
