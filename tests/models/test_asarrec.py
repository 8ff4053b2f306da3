"""AsarSASRec as a RecBole model: the two players, the backbone untouched, and the same result twice."""

import copy

import pytest
import torch
from helpers import AS_RECBOLE, SMALL, build
from recbole.quick_start import run_recbole

from recbole_asarrec.data import CONTRASTIVE_ROW
from recbole_asarrec.data.dataset import last_row_of_user
from recbole_asarrec.training import checkpoint


def first_batch(data, device="cpu"):
    return next(iter(data[0])).to(device)


def test_loss_has_three_named_finite_parts(toy):
    _, data, model = build()
    losses = model.calculate_loss(first_batch(data))
    assert len(losses) == len(model.loss_names) == 3
    assert all(loss.isfinite() and loss.ndim == 0 for loss in losses)
    sum(losses).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def fixed_game(model, batch):
    """InfoNCE on one batch without dropout or noise that differs from call to call."""
    model.eval()
    torch.manual_seed(0)
    pairs = model.contrastive_batch(batch)
    return model.settings.contrastive_weight * model.contrast(pairs, model.draw_views(pairs)).infonce


@pytest.mark.learning
def test_the_augmenter_raises_infonce_while_the_backbone_lowers_it(toy):
    """One backward pass must push the two players in opposite directions.

    A hard view does not change with a small step of the augmenter, so its side is read off the soft matrix:
    along the reversed gradient, the first-order change of InfoNCE must be positive. Nothing is trained; the
    backbone's one step lowers it by 1 %, a thousand times what rounding does.
    """
    _, data, model = build(diversity_weight=0.0, semantic_weight=0.0)
    batch = first_batch(data)
    before = fixed_game(model, batch)
    model.zero_grad()
    before.backward()
    backbone = [p for name, p in model.named_parameters() if not name.startswith("augmenter")]
    moved = [p for p in backbone if p.grad is not None]
    with torch.no_grad():
        for p in moved:
            p -= 1e-3 * p.grad / p.grad.norm().clamp_min(1e-12)
        lowered = fixed_game(model, batch)
        for p in moved:
            p += 1e-3 * p.grad / p.grad.norm().clamp_min(1e-12)
    assert lowered < before

    reversed_ = [p.grad.clone() for p in model.augmenter.parameters()]
    object.__setattr__(model.settings, "gradient_reversal", -1.0)  # the same pass without the reversal
    model.zero_grad()
    fixed_game(model, batch).backward()
    for one, other in zip(reversed_, (p.grad for p in model.augmenter.parameters())):
        assert one.abs().sum() > 0 and torch.allclose(one, -other, rtol=1e-4, atol=1e-7)


@pytest.mark.learning
def test_many_steps_of_the_augmenter_alone_raise_infonce(steady):
    """The real thing: freeze the backbone, train only the augmenter, and views get harder.

    Easier where the optimiser goes the other way, so that it is the gradient and not the time. Worst of 18:
    1.31 and 0.68 times as hard as before.
    """
    _, data, model = build(
        diversity_weight=0.0,
        semantic_weight=0.0,
        contrast_on="prefix",
        contrast_ratio=1.0,
        perturbation_budget=0.3,
        gumbel_scale=0.5,
        logit_limit=0.0,
    )
    batch = first_batch(data)
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(30):  # a backbone that means something
        optimiser.zero_grad()
        sum(model.calculate_loss(batch)).backward()
        optimiser.step()
    model.eval()
    start = copy.deepcopy(model.augmenter.state_dict())

    def hardness(steps, easier=False):
        """InfoNCE over 20 draws after so many steps from the start."""
        model.augmenter.load_state_dict(start)
        optimiser = torch.optim.Adam(model.augmenter.parameters(), 1e-2, maximize=easier)
        torch.manual_seed(2)
        for _ in range(steps):
            optimiser.zero_grad()
            model.calculate_loss(batch)[1].backward()
            optimiser.step()
        torch.manual_seed(1)
        with torch.no_grad():
            return sum(model.calculate_loss(batch)[1].item() for _ in range(20)) / 20

    before = hardness(0)
    assert hardness(60) > 1.1 * before
    assert hardness(60, easier=True) < 0.9 * before


@pytest.mark.parametrize("loss_type", ["CE", "BPR"])
def test_weight_zero_is_the_backbone_bit_for_bit(toy, loss_type):
    """A user who switches the term and the speed-ups off must get SASRec, not something close to it."""
    negatives = {"distribution": "uniform", "sample_num": 1} if loss_type == "BPR" else None
    shared = {
        **SMALL,
        "loss_type": loss_type,
        "learning_rate": 0.001,
        "train_neg_sample_args": negatives,
        "load_col": {"inter": ["user_id", "item_id", "timestamp"]},
        "metrics": ["Hit", "NDCG"],
        "topk": [10, 20],
        "valid_metric": "NDCG@10",
        "metric_decimal_place": 12,
    }
    plain = run_recbole(model="SASRec", dataset="toy", config_dict=dict(shared))
    asar = run_recbole(model="AsarSASRec", dataset="toy", config_dict={**shared, **AS_RECBOLE})
    assert asar["best_valid_result"] == plain["best_valid_result"]
    assert asar["test_result"] == plain["test_result"]


def test_one_seed_gives_one_result_and_another_seed_another(toy):
    def run(seed):
        keys = {**SMALL, "seed": seed, "metric_decimal_place": 12}
        return run_recbole(model="AsarSASRec", dataset="toy", config_dict=keys)

    assert run(1) == run(1)
    assert run(1)["test_result"] != run(2)["test_result"]


def test_inference_never_touches_the_augmenter(toy):
    _, data, model = build()
    model.eval()
    batch = next(iter(data[2]))[0]
    expected = model.full_sort_predict(batch)
    model.augmenter = None
    assert torch.equal(model.full_sort_predict(batch), expected)
    of_target = expected.gather(1, batch[model.ITEM_ID][:, None]).squeeze(1)
    assert torch.allclose(model.predict(batch), of_target, atol=1e-5)


def test_training_does_not_change_the_batch(toy):
    _, data, model = build()
    batch = first_batch(data)
    copies = {name: batch[name].clone() for name in batch}
    model.calculate_loss(batch)
    assert all(torch.equal(batch[name], copies[name]) for name in copies)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_gives_finite_losses_and_gradients(toy, dtype):
    _, data, model = build()
    with torch.autocast("cpu", dtype=dtype):
        losses = model.calculate_loss(first_batch(data))
    sum(losses).backward()
    assert all(loss.isfinite() for loss in losses)
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_amp_through_recboles_own_key(toy, monkeypatch):
    """Every loss is taken under autocast, and what is learned so is what is saved: finite weights."""
    from recbole_asarrec import AsarSASRec

    original, autocast = AsarSASRec.training_step, []

    def watched(self, interaction):
        autocast.append(torch.is_autocast_enabled("cpu"))
        return original(self, interaction)

    monkeypatch.setattr(AsarSASRec, "training_step", watched)
    run_recbole(model="AsarSASRec", dataset="toy", config_dict={**SMALL, "enable_amp": True})
    assert autocast and all(autocast)
    (file,) = (toy / "saved").glob("*.pth")
    assert all(value.isfinite().all() for value in checkpoint.read(file)["state_dict"].values())


@pytest.mark.parametrize(
    "keys",
    [
        {"num_candidates": 0},
        {"edit_cap": False, "keep_columns": "all"},
        {"contrast_on": "prefix", "contrast_ratio": 1.0, "symmetric_infonce": True},
        {"gumbel_scale": 0.0, "identity_bias": 4.0},
        {"assignment": "one_pass", "sinkhorn_threshold": 3.0, "edit_cap": False},
        {"ndcg_gain": "exponential", "diversity_ratio": 0.0, "min_edits": 0},
        {"encode_position": False, "num_candidates": 50},
        {"MAX_ITEM_LIST_LENGTH": 1},
        {"MAX_ITEM_LIST_LENGTH": 4, "keep_columns": "all", "edit_cap": False},
        # more items than positions: similar items were once looked up with a position each
        {"MAX_ITEM_LIST_LENGTH": 10, "similarity": "embedding"},
        {"MAX_ITEM_LIST_LENGTH": 10, "similarity": "embedding", "augmentation": "coserec_insert"},
    ],
)
def test_every_option_trains(toy, keys):
    _, data, model = build(**keys)
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    for batch in data[0]:
        losses = model.calculate_loss(batch)
        optimiser.zero_grad()
        sum(losses).backward()
        optimiser.step()
        assert all(loss.isfinite() for loss in losses)
    assert all(p.isfinite().all() for p in model.parameters())


def test_each_user_carries_the_term_once_an_epoch(toy):
    """The paper's expectation is over users; six prefixes a user would weigh long histories more."""
    _, data, model = build()
    seen = torch.cat([batch[model.USER_ID][batch[CONTRASTIVE_ROW]] for batch in data[0]])
    assert sorted(seen.tolist()) == list(range(1, data[0]._dataset.user_num))


def test_the_marked_row_is_the_users_longest(toy):
    _, data, model = build()
    rows = data[0]._dataset.inter_feat
    for user in range(1, 6):
        mine = rows[model.USER_ID] == user
        longest = rows[model.ITEM_SEQ_LEN][mine].max()
        assert rows[model.ITEM_SEQ_LEN][mine & rows[CONTRASTIVE_ROW]].tolist() == [longest.item()]


def test_last_row_of_users_that_are_not_grouped():
    import numpy as np

    assert last_row_of_user(np.array([3, 1, 3, 2, 1])).tolist() == [False, False, True, True, True]


def test_no_row_of_the_batch_marked_still_trains(toy):
    _, data, model = build()
    batch = first_batch(data)
    batch[CONTRASTIVE_ROW] = torch.zeros(len(batch), dtype=torch.bool)
    recommendation, contrastive, augmenter = model.calculate_loss(batch)
    assert contrastive.item() == augmenter.item() == 0
    (recommendation + contrastive + augmenter).backward()


def test_the_papers_setting_trains_with_noise_in_the_histories(toy):
    """One key brings loss, batches, ranking and noise of the paper together."""
    keys = {**SMALL, "recipe": "paper", "noise_ratio": 0.2, "drop_repeating_users": False, "eval_step": 1}
    config, data, model = build(small=keys)
    assert model.loss_type == "BCE" and config["exclude_history"] and config["learner"] == "adamw"
    assert config["noise_scope"] == "train_and_history" and config["batch_by"] == "users"
    losses = model.calculate_loss(next(iter(data[0])))
    assert len(losses) == 3 and all(loss.isfinite() for loss in losses)
    result = run_recbole(model="AsarSASRec", dataset="toy", config_dict=dict(keys))
    assert result["test_result"]["hit@10"] > 0
