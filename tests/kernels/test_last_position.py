"""Computing only the position that is read may not change what is read."""

import pytest
import torch
from helpers import assert_same_gradients, build

STILL = {"hidden_dropout_prob": 0.0, "attn_dropout_prob": 0.0}


@pytest.mark.parametrize("keys", [{}, {"training": "all_positions"}, {"n_layers": 2, "n_heads": 2}], ids=str)
def test_losses_and_gradients_are_those_of_the_whole_layer(toy, keys):
    """All terms: next item, InfoNCE through both views, and what reaches the augmenter."""
    _, data, narrow = build(**STILL, **keys)
    _, _, whole = build(**STILL, **keys)
    object.__setattr__(whole.settings, "fused", False)  # the whole layer, everything else as before
    for batch in list(data[0])[:3]:
        losses = []
        for model in (narrow, whole):
            torch.manual_seed(0)
            losses.append(model.calculate_loss(batch))
        assert len(losses[0]) == 3
        for one, two in zip(*losses):
            assert one.item() == pytest.approx(two.item(), rel=1e-5)
        assert_same_gradients((narrow, sum(losses[0])), (whole, sum(losses[1])), atol=1e-5)


def test_ranking_is_that_of_the_whole_layer_and_checkpoints_keep_their_names(toy):
    _, data, narrow = build()
    _, _, whole = build(fused=False)
    whole.load_state_dict(narrow.state_dict())
    batch = next(iter(data[1]))[0]
    with torch.no_grad():
        scores = [model.eval().full_sort_predict(batch) for model in (narrow, whole)]
    assert torch.allclose(*scores, atol=1e-5)


def test_every_position_is_computed_when_asked_for(toy):
    """The last of all positions is the one that is read alone."""
    _, data, model = build(**STILL, training="all_positions")
    batch = next(iter(data[0]))
    history, length = batch[model.ITEM_SEQ], batch[model.ITEM_SEQ_LEN]
    last = model.forward(history, length)
    every = model.encode(history, length, every_position=True)
    assert torch.allclose(every[torch.arange(len(length)), length - 1], last, atol=1e-5)
    assert not torch.allclose(every[:, 0], every[:, 1], atol=1e-3), "all positions are the same"
