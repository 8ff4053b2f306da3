"""Every backbone: it learns what it should, its padding does not leak, and what cannot work is refused."""

import pytest
import torch
from helpers import AS_RECBOLE, BACKBONES, STOCK, build, keys_of
from recbole.config import Config
from recbole.model.sequential_recommender import NARM, GRU4Rec, SASRec
from recbole.quick_start import load_data_and_model, run_recbole
from recbole.utils import get_model

from recbole_asarrec import asar, recommend
from recbole_asarrec.errors import ConfigError


@pytest.mark.learning
@pytest.mark.parametrize("backbone", BACKBONES)
def test_it_learns_saves_loads_and_recommends(steady, backbone):
    """The item that follows is among the first three of those not had yet, for more users than by chance.

    It starts from random items, so that this is learned: 0.04 to 0.23 before training. Worst of 18: 0.96.
    """
    keys = {**keys_of(backbone), "MAX_ITEM_LIST_LENGTH": 5, "eval_step": 12, "item_init": "random"}
    keys |= {"exclude_history": True, "topk": [3], "valid_metric": "NDCG@3"}
    result = run_recbole(model=f"Asar{backbone}", dataset="toy", config_dict=keys)
    assert result["test_result"]["hit@3"] > 0.6
    (file,) = (steady / "saved").glob("*.pth")
    _, model, *_ = load_data_and_model(str(file))
    assert type(model).__name__ == f"Asar{backbone}"
    assert len(recommend(file, [["i3", "i4", "i5"]], k=10)[0].items) == 10


@pytest.mark.parametrize("backbone", BACKBONES)
def test_the_augmenter_gets_a_gradient_through_every_backbone(toy, backbone):
    _, data, model = build(
        f"Asar{backbone}", **keys_of(backbone), contrast_on="prefix", contrast_ratio=1.0, small={}
    )
    losses = model.calculate_loss(next(iter(data[0])))
    assert all(loss.isfinite() for loss in losses)
    model.zero_grad()
    losses[1].backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.augmenter.parameters())


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("AsarBERT4Rec", "masked items"),
        ("AsarS3Rec", "two stages"),
        ("AsarBPR", "no sequential recommender"),
        ("AsarCaser", r"encodes \(user, item_seq\)"),
        ("AsarFPMC", "instead of a history"),
    ],
)
def test_what_cannot_be_augmented_is_refused_with_the_reason(toy, model, reason):
    with pytest.raises(ConfigError, match=f"{model[4:]} cannot be augmented: .*{reason}"):
        Config(model=model, dataset="toy")


@pytest.mark.parametrize("model", ["AsarGCSAN", "AsarSRGNN"])
def test_graphs_of_distinct_items_are_refused_when_built(toy, model):
    """They embed each item of a history once: a view's places do not reach the embedding."""
    with pytest.raises(ConfigError, match="does not look up a history item by item"):
        build(model, small={})


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ("AsarSASRecCPR", "encodes a history as a list, not as one vector of"),
        ("AsarGRU4RecCPR", "encodes a history as .* not as one vector of"),
        ("AsarSASRecF", "reads the field 'class', which is not loaded; see the keys selected_features"),
        ("AsarFDSA", "reads the field 'class', which is not loaded"),
    ],
)
def test_what_a_backbone_has_of_its_own_is_named(toy, model, sentence):
    """Several outputs for a history, or features that the dataset lacks."""
    with pytest.raises(ConfigError, match=sentence):
        build(model, small={"state": "ERROR"})


def test_the_factory_and_the_name_give_the_same_kind_of_class(toy):
    made = asar(NARM)
    assert made.__name__ == "AsarNARM" and made.backbone is NARM and issubclass(made, NARM)
    assert get_model("AsarNARM").backbone is NARM


@pytest.mark.parametrize("backbone", ["GRU4Rec", "FMLPRec"])
def test_weight_zero_is_the_backbone_bit_for_bit(toy, backbone):
    shared = {**keys_of(backbone), "epochs": 2, **STOCK, "metrics": ["Hit", "NDCG"], "topk": [10, 20]}
    shared |= {"valid_metric": "NDCG@10", "metric_decimal_place": 12}
    plain = run_recbole(model=backbone, dataset="toy", config_dict=dict(shared))
    asar_ = run_recbole(model=f"Asar{backbone}", dataset="toy", config_dict={**shared, **AS_RECBOLE})
    assert asar_["test_result"] == plain["test_result"]


def test_trimming_is_exact_for_gru4rec(toy):
    keys = {**keys_of("GRU4Rec"), "dropout_prob": 0.0, "contrastive_weight": 0.0}
    _, data, model = build("AsarGRU4Rec", **keys, small={})
    batch = next(iter(data[0]))
    history, length = batch[model.ITEM_SEQ], batch[model.ITEM_SEQ_LEN]
    wide = torch.nn.functional.pad(history, (0, 20 - history.size(1)))
    assert wide.size(1) > history.size(1)
    assert torch.allclose(model.encode(history, length), model.encode(wide, length), atol=1e-6)


def test_fmlprec_keeps_all_places_and_refuses_all_positions(toy):
    _, data, model = build("AsarFMLPRec", **keys_of("FMLPRec"), small={})
    assert next(iter(data[0]))[model.ITEM_SEQ].size(1) == 20
    with pytest.raises(ConfigError, match="FMLPRec is not causal"):
        Config(model="AsarFMLPRec", dataset="toy", config_dict={"training": "all_positions"})


def test_fmlprec_filters_in_the_frequency_domain():
    """With a filter of ones the layer is the identity before dropout, residual and norm (paper, eq. 4)."""
    from recbole_asarrec.models.fmlprec import FilterLayer

    layer = FilterLayer(20, 8, 0.0, 1e-12, 0.02).eval()
    layer.filter.data = torch.tensor([1.0, 0.0]).expand(11, 8, 2).clone()
    hidden = torch.randn(3, 20, 8)
    assert torch.allclose(layer(hidden), layer.norm(2 * hidden), atol=1e-5)


@pytest.mark.parametrize("length", [1, 2, 19, 20])
def test_fmlprecs_last_place_alone_is_that_of_all_places(length):
    """Odd and even L: the spectrum of an odd one has no highest frequency of its own."""
    from recbole_asarrec.models.fmlprec import FilterLayer

    torch.manual_seed(0)
    layer = FilterLayer(length, 8, 0.0, 1e-12, 0.5)
    hidden = torch.randn(3, length, 8, requires_grad=True)
    whole, alone = layer(hidden)[:, -1:], layer.last(hidden)
    assert torch.allclose(whole, alone, atol=1e-5)
    weight = torch.randn_like(alone)
    wanted, found = (
        torch.autograd.grad((out * weight).sum(), (hidden, layer.filter)) for out in (whole, alone)
    )
    for one, two in zip(wanted, found):
        assert torch.allclose(one, two, atol=1e-4)


def test_fmlprec_is_what_all_places_of_all_blocks_make(toy):
    """The last block skips what is not read; the blocks before it may skip nothing."""
    _, _, model = build("FMLPRec", **keys_of("FMLPRec"), **STOCK, n_layers=3, small={})
    model.eval()
    entered = []
    model.blocks[0].register_forward_pre_hook(lambda module, inputs: entered.append(inputs[0]))
    history = torch.tensor([[3, 4, 5] + [0] * 17, [7] + [0] * 19])
    encoded = model(history, torch.tensor([3, 1]))
    hidden = entered[0]
    for block in model.blocks:
        hidden = block(hidden)
    assert torch.allclose(encoded, hidden[:, -1], atol=1e-5)


def test_fmlprec_reads_the_newest_item_at_the_last_place(toy):
    """RecBole pads on the right; the filter's last place must hold the newest item."""
    _, _, model = build("FMLPRec", **keys_of("FMLPRec"), **STOCK, small={})
    model.eval()
    seen = []
    model.norm.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    history = torch.tensor([[3, 4, 5] + [0] * 17, [7] + [0] * 19])
    model(history, torch.tensor([3, 1]))
    positions = model.position_embedding.weight
    assert torch.allclose(seen[0][0, -3:] - positions[-3:], model.item_embedding.weight[[3, 4, 5]], atol=1e-6)
    assert torch.allclose(seen[0][1, -1] - positions[-1], model.item_embedding.weight[7], atol=1e-6)
    padding = model.item_embedding.weight[0]
    assert torch.allclose(seen[0][1, :-1], positions[:-1] + padding, atol=1e-6)


def test_backbones_of_the_plugin_are_the_stock_classes():
    assert get_model("AsarGRU4Rec").backbone is GRU4Rec and get_model("AsarSASRec").backbone is SASRec


def test_fmlprecs_augmenter_sees_the_places_its_backbone_does(toy):
    _, _, model = build("AsarFMLPRec", **keys_of("FMLPRec"), small={})
    history, length = torch.tensor([[3, 4, 5], [7, 0, 0]]), torch.tensor([3, 1])
    assert model.backbone_positions(length, 3).tolist() == [[17, 18, 19], [19, 19, 19]]
    shown, plain = model.embed_for_augmenter(history, 3)
    assert torch.allclose(shown[0] - plain[0], model.position_embedding.weight[17:], atol=1e-6)
