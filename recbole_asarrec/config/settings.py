"""Every key of the Asar models: its default, what it must be, what it means, its symbol in the paper.

Written here once; ``docs/keys.py`` writes ``properties/model/Asar.yaml``, ``properties/overall.yaml`` and
``docs/keys.md`` from it, and a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recbole_asarrec.config.base import Settings, key
from recbole_asarrec.config.rules import Rule, boolean, either, integer, number, one_of

OPERATIONS = (
    *("crop", "mask", "reorder", "insert", "substitute"),
    *("coserec_insert", "coserec_substitute", "dropout"),
)
AUGMENTATIONS = ("asar", "random_matrix", "none", "cl4srec", "s3rec", *OPERATIONS)
RECIPES = ("robust", "plain", "paper")


def _augmentation() -> Rule:
    return Rule(
        f"one of {', '.join(AUGMENTATIONS)}, or a list of two or more of {', '.join(OPERATIONS)}",
        lambda value: (
            value in AUGMENTATIONS
            if isinstance(value, str)
            else isinstance(value, (list, tuple))
            and len(value) > 1
            and all(name in OPERATIONS for name in value)
        ),
        "str or list",
    )


@dataclass(frozen=True)
class AsarSettings(Settings):
    """Keys of the Asar models."""

    recipe: str = key(
        "robust",
        one_of(*RECIPES),
        "How the model is trained, whatever its augmentation (properties/recipe). 'robust' adds denoising, "
        "generalized cross-entropy, a history penalty, co-occurrence initialization and EMA; 'plain' adds "
        "nothing; 'paper' is the paper's setting: BCE, batches of users, history removed from the ranking. "
        "Any key you set overrides it.",
        section="Recipe",
    )
    item_init: str = key(
        "random",
        one_of("random", "cooccurrence"),
        "Initial item embeddings: the backbone's own, or from which items follow each other in training. "
        "robust: cooccurrence.",
    )
    gce_q: float | str = key(
        0.0,
        either("auto", number(0, 1)),
        "Generalized cross-entropy (1 - p^q) / q: the larger q, the less unpredictable targets weigh. 0 is "
        "cross-entropy. robust: auto, 0.1 with a softmax over inner products, else 0.",
        "q",
    )
    history_penalty: float | str = key(
        1.0,
        either("auto", number(1)),
        "Weight of the items of the user's history among the negatives of the softmax. robust: auto, 3 "
        "unless 1 % of the targets are repeated items or histories average more than 20 items.",
    )
    ema_decay: float | str = key(
        0.0,
        either("auto", number(0, 1, open_high=True)),
        "Validate and save an exponential moving average (EMA) of the weights. 0 is off. robust: auto, an "
        "average over two epochs, at most 0.999.",
    )
    denoise_strength: float = key(
        0.0,
        number(0),
        "Drop items that fit poorly into their history from training sequences, redrawn each epoch: factor "
        "on the drop probability. robust: 1.",
    )
    denoise_mode: str = key(
        "score",
        one_of("score", "random"),
        "'score' drops by how poorly an item fits; 'random' drops as many at random, as a control.",
    )
    training: str = key(
        "auto",
        one_of("auto", "prefix", "all_positions"),
        "'prefix' has one row for each history and its next item, as RecBole does; 'all_positions' has one "
        "row for each user's sequence and a target at every position (causal backbones). auto: "
        "all_positions where possible.",
        section="Training",
    )
    batch_by: str = key(
        "targets",
        one_of("targets", "users"),
        "What train_batch_size counts with all_positions: targets, or users' sequences.",
    )
    num_negatives: int = key(1, integer(1), "Unseen items drawn for each target, with loss_type: BCE.")
    batching: str = key(
        "bucketed",
        one_of("bucketed", "random"),
        "'bucketed' batches rows of similar length, trimmed to the longest; 'random' is RecBole's batching.",
    )
    byte_dropout: bool = key(
        True,
        boolean(),
        "On a CPU, draw dropout masks from random bytes (p to 1/256) instead of torch's slower generator.",
    )
    fused: bool = key(
        True,
        boolean(),
        "Compute softmax cross-entropy, GELU and, on a CPU, Adam in fewer passes; equal to RecBole's up to "
        "float rounding.",
    )
    augmentation: str | Sequence[str] = key(
        "asar",
        _augmentation(),
        "How views are made, and nothing else: 'asar' (learned), 'random_matrix' (random matrices with as "
        "many edits), a fixed operation, 'cl4srec' (mask one view, reorder the other), 's3rec' (predicts "
        "masked items), 'none', or a list of operations: two make one view each, of more each view takes "
        "one at random.",
        section="Contrastive term",
    )
    operation_ratio: float | None = key(
        None,
        either(None, number(0, 1, open_low=True, open_high=True)),
        "Share of a history that a fixed operation edits; ~ takes perturbation_budget.",
    )
    similarity: str = key(
        "item_cf",
        one_of("item_cf", "embedding"),
        "How CoSeRec and candidates: similar find similar items: 'item_cf' (users in common) or 'embedding' "
        "(the model's own).",
    )
    contrastive_weight: float = key(0.1, number(0), "Weight of InfoNCE in the loss. 0 makes no views.", "λ")
    temperature: float = key(0.2, number(0, open_low=True), "Temperature of InfoNCE.", "τ")
    symmetric_infonce: bool = key(
        False, boolean(), "Average InfoNCE over both directions; the paper writes one."
    )
    contrast_on: str = key(
        "auto",
        one_of("auto", "user", "prefix"),
        "'user' contrasts each user's full history, once an epoch; 'prefix' every history a target is "
        "predicted from. auto: prefix with all_positions, else user.",
    )
    contrast_ratio: float = key(
        0.5,
        number(0, 1, open_low=True),
        "Share of the batches that are contrasted, with contrast_on: prefix.",
    )
    perturbation_budget: float = key(
        0.1,
        number(0, 1, open_low=True, open_high=True),
        "Share of a history that may be edited.",
        "γ",
        section="Perturbation budget",
    )
    min_edits: int = key(1, integer(0), "Smallest budget of a user. 0 is the paper's floor(γn).")
    edit_cap: bool = key(True, boolean(), "Undo a view's least wanted edits beyond max(min_edits, ceil(γn)).")
    num_candidates: int = key(
        3, integer(0), "Unseen items offered to Insert and Substitute.", "k", section="Transition encoder"
    )
    candidates: str = key(
        "similar",
        one_of("similar", "uniform"),
        "Which unseen items those are: 'similar' to an item of the history, whose position they prefer, or "
        "drawn 'uniform', as in the paper.",
    )
    null_item: bool = key(
        True,
        boolean(),
        "Let positions of a view stay empty, as Mask and Crop need: an item that is none, which any position "
        "may take. False fills every position.",
    )
    augmenter_hidden_size: int = key(32, integer(1), "Hidden size of the transition encoder.", "d'")
    encode_position: bool = key(
        True, boolean(), "Give the encoder item + position embeddings instead of items alone."
    )
    identity_bias: float | str = key(
        "calibrated",
        either("calibrated", number(-1e4, 1e4)),
        "Bias on the diagonal of the transition logits; 'calibrated' starts at γ edits for any length.",
    )
    gumbel_scale: float = key(
        1.0, number(0), "Scale of the Gumbel noise on the transition logits. 0 switches exploration off."
    )
    logit_limit: float = key(
        1.0,
        number(0),
        "Largest transition logit that can be learned, by a tanh: a small limit keeps matrices as varied as "
        "random ones. 0 is no limit.",
    )
    sinkhorn_rounds: int = key(10, integer(1), "Normalization rounds.", "T", section="Semi-Sinkhorn")
    sinkhorn_threshold: float = key(
        0.1,
        number(0),
        "A row or column whose entries differ by less than this / (n+k) is set to zero.",
        "δ",
    )
    assignment: str = key(
        "mutual",
        one_of("mutual", "one_pass"),
        "Rounding to a hard matrix: iterated mutual argmax, or its first pass.",
    )
    keep_columns: str = key(
        "history",
        one_of("history", "all"),
        "Positions that make the view: the n of the history, or all n+k.",
    )
    gradient_reversal: float = key(
        1.0,
        number(0),
        "Strength of InfoNCE's reversed gradient on the augmenter.",
        section="Augmenter loss",
    )
    diversity_weight: float = key(1.0, number(0), "Weight of the diversity loss.", "λ_div")
    diversity_margin: float = key(20.0, number(0), "Distance the two matrices should keep.", "ε")
    diversity_ratio: float = key(
        0.2, number(0), "The distance asked of n items is at most 2n times this. 0 takes ε literally.", "ρ"
    )
    semantic_weight: float = key(
        0.1,
        number(0),
        "Weight of the sequence-aware NDCG loss. A large one, as 5, keeps views from editing the newest "
        "items.",
        "λ_NDCG",
    )
    ndcg_gain: str = key(
        "linear",
        one_of("linear", "exponential"),
        "Gain of an item in that NDCG: linear in its position, or exponential.",
    )

    @property
    def contrasts(self) -> bool:
        """Whether there is a contrastive term."""
        return self.augmentation != "none" and self.contrastive_weight > 0

    @property
    def operation_budget(self) -> float:
        """The share of a history that a fixed operation edits: its own, or the budget γ."""
        return self.perturbation_budget if self.operation_ratio is None else self.operation_ratio


# RecBole's keys with other defaults than RecBole's, for Asar models
RECBOLE_DEFAULTS: Mapping[str, tuple[Any, str, str]] = {
    "train_neg_sample_args": (
        None,
        "dict",
        "None for CE and BCE; with loss_type BPR one uniform negative is drawn.",
    ),
    "train_batch_size": (
        "auto",
        "int or 'auto'",
        "Rows of a batch; with all_positions, targets. auto: 256, and with all_positions as many as 40 "
        "sequences have, rounded to a power of two.",
    ),
    "learning_rate": (
        "auto",
        "float or 'auto'",
        "auto: 0.001 from 500 steps an epoch on, up to 0.004 for fewer.",
    ),
    "stopping_step": (
        "auto",
        "int or 'auto'",
        "Patience in validations. auto: 10 from 500 steps an epoch on, up to 20 for fewer.",
    ),
    "metrics": (["Hit", "NDCG"], "list", "The paper's HR and NDCG."),
    "topk": ([10, 20], "list", "Cutoffs of the metrics."),
    "valid_metric": ("NDCG@10", "str", "Early stopping and model selection."),
}
