"""Whatever way a model is asked, the answers are those of its own ``full_sort_predict``."""

import pytest
import torch
from helpers import BACKBONES, STOCK, build, keys_of
from recbole.data.interaction import Interaction

from recbole_asarrec.inference import scorer as scorers
from recbole_asarrec.inference.scorer import Scorer

# by inner product, and with batches as wide as their longest history
WAYS = {
    "AsarSASRec": (True, True),
    "SASRec": (True, True),
    "AsarGRU4Rec": (True, True),
    "FMLPRec": (True, False),  # its filter spans all positions
    "AsarNARM": (True, None),
    "AsarCORE": (False, True),  # a cosine
    "LightSANs": (True, None),
}


@pytest.mark.parametrize("model", WAYS)
def test_against_recboles_own_ranking(toy, monkeypatch, model):
    backbone = model.removeprefix("Asar")
    stock = {} if model.startswith("Asar") or backbone == "FMLPRec" else STOCK
    assert backbone in BACKBONES
    _, _, made = build(model, small={**keys_of(backbone), **stock})
    made.eval()
    monkeypatch.setattr(scorers, "_POSITIONS", 100)  # several batches
    found = Scorer(made, made.max_seq_length)
    by_product, trims = WAYS[model]
    assert found.by_product == by_product and trims in (None, found.trims)
    generator = torch.Generator().manual_seed(0)
    lengths = [1, 25, 3, 20, 2, 1, 7, 19]  # 25: more than the model reads
    histories = [torch.randint(1, 31, (n,), generator=generator).tolist() for n in lengths]
    for exclude in (False, True):
        best = found.best(histories, 12, exclude)
        for history, scores, items in zip(histories, *best):
            newest = history[-made.max_seq_length :]
            padded = torch.zeros(1, made.max_seq_length, dtype=torch.long)
            padded[0, : len(newest)] = torch.tensor(newest)
            one = {made.ITEM_SEQ: padded, made.ITEM_SEQ_LEN: torch.tensor([len(newest)])}
            with torch.no_grad():
                expected = made.full_sort_predict(Interaction(one)).flatten()
            expected[0] = -torch.inf
            if exclude:
                expected[history] = -torch.inf
            assert torch.allclose(scores, expected.sort(descending=True).values[:12], atol=1e-4)
            assert torch.allclose(expected[items], scores, atol=1e-4)


def test_short_histories_are_encoded_in_narrow_batches(toy):
    """A history of two items must not cost what one of fifty costs."""
    _, _, made = build()
    found = Scorer(made.eval(), made.max_seq_length)
    shapes = []
    handle = made.item_embedding.register_forward_hook(lambda _m, x, _y: shapes.append(tuple(x[0].shape)))
    found.best([[1, 2]] * 600 + [[3] * 40] * 500 + [[4]] * 900, 5)
    handle.remove()
    assert sum(rows for rows, _ in shapes) == 2000
    assert all(rows <= scorers._LARGEST and rows * width <= scorers._POSITIONS for rows, width in shapes)
    assert sum(rows for rows, width in shapes if width <= 2) == 1500
