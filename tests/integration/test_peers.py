"""Another library must get the very split that this package trains on, and be ranked on its test items."""

import json
import sys

import pytest
from tqdm import tqdm

from benchmarks import peers
from recbole_asarrec.errors import UserError
from recbole_asarrec.experiments.records import Spec
from recbole_asarrec.experiments.run import configure


def test_the_split_is_recbole_s(toy):
    from recbole.data import create_dataset, data_preparation

    sequences = peers.sequences_of("toy", "dataset")
    config = configure(Spec("AsarSASRec", "toy", 2020, {"augmentation": "none"}), data_path="dataset")
    whole = create_dataset(config)
    for loader, back in zip(data_preparation(config, whole)[1:], (2, 1)):
        part = loader._dataset
        rows = part.inter_feat.materialize()
        assert len(rows) == len(sequences)
        for row in range(len(rows)):
            items = sequences[str(part.id2token("user_id", rows["user_id"][row]))]
            length = int(rows["item_length"][row])
            history = part.id2token("item_id", rows["item_id_list"][row, :length])
            assert items[-back] == part.id2token("item_id", rows["item_id"][row])
            assert items[:-back][-length:] == list(history)


def test_ranks_are_of_the_test_item_by_protocol(tmp_path):
    (tmp_path / "top.csv").write_text(
        "user,item,rank,without_history\na,x,1,False\na,y,3,False\na,y,2,True\nb,x,1,True\nc,z,20,False\n"
    )
    found = peers.read_ranks(tmp_path / "top.csv", {"a": "y", "b": "q", "c": "z"})
    assert found["all_items"].tolist() == [3, 21, 20] and found["unseen_items"].tolist() == [2, 21, 21]


def test_a_peer_sees_no_test_item_and_is_read_epoch_by_epoch(tmp_path, monkeypatch):
    """The other library is played by a script that recommends each user's validation item."""
    script = tmp_path / "peer.py"
    script.write_text(
        "import json, pathlib, sys\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "sequences = json.loads((folder / 'sequences.json').read_text())\n"
        "assert all('test' not in items for items in sequences.values())\n"
        "lines = [f'{user},{items[-1]},1,False' for user, items in sequences.items()]\n"
        "(folder / 'top.csv').write_text('\\n'.join(['user,item,rank,without_history', *lines]))\n"
        "print(json.dumps({'epoch': 1, 'seconds': 0.5, 'ndcg@10': 0.25}))\n"
    )
    monkeypatch.setattr(peers, "SCRIPT", script)
    sequences = {"a": ["1", "2", "test"], "b": ["3", "4", "test"]}
    peer = peers.train(sys.executable, sequences, 1, {"lr": 0.1}, {}, tqdm(disable=True))
    assert peer.validation == 0.25 and peer.test["all_items"]["hit@20"] == 0
    script.write_text("import sys\nsys.exit('no module named rectools')\n")
    with pytest.raises(UserError, match="no module named rectools"):
        peers.train(sys.executable, sequences, 1, {"lr": 0.1}, {}, tqdm(disable=True))


def test_every_setting_is_tried_once_and_read_by_the_other_side():
    tried = [json.dumps(one) for one in peers.settings()]
    assert len(set(tried)) == len(tried) == 8
