"""Every key of the plugin: its default, what it must be, what it means, its symbol in the paper.

Written here once; ``docs/keys.py`` writes ``properties/model/Asar.yaml``, ``properties/overall.yaml`` and
``docs/keys.md`` from it, and a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from recbole_asarrec.config.rules import Rule, boolean, check_value, either, integer, number, one_of
from recbole_asarrec.errors import ConfigError

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


def _key(default: Any, rule: Rule, meaning: str, symbol: str = "", section: str = "") -> Any:
    """A configuration key; ``section`` is the heading that starts with it."""
    return field(
        default=default,
        metadata={"rule": rule, "meaning": meaning, "symbol": symbol, "section": section},
    )


class Settings:
    """Base of the settings classes: reading from a mapping with every value checked."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The configuration keys, in order."""
        return tuple(f.name for f in fields(cls))  # type: ignore[arg-type]

    @classmethod
    def read(cls, config: Mapping[str, Any] | Any) -> Any:
        """Take this class's keys from a RecBole config or a dict.

        Raises:
            ConfigError: naming the key, the value and what it should be.
        """
        values = {}
        for f in fields(cls):  # type: ignore[arg-type]
            values[f.name] = config[f.name]
            check_value(f.name, values[f.name], f.metadata["rule"])
        return cls(**values)


@dataclass(frozen=True)
class PackageSettings(Settings):
    """Keys that apply to every model, stock models included."""

    noise_ratio: float = _key(
        0.0,
        number(0, 1, open_high=True),
        "Share of each user's training items that are turned into noise.",
        section="Noise",
    )
    noise_kind: str = _key(
        "replace",
        one_of("replace", "insert"),
        "'replace' exchanges an item for a random unseen one; 'insert' adds one between two items.",
    )
    noise_scope: str = _key(
        "train",
        one_of("train", "train_and_history"),
        "'train' adds noise to training data only; 'train_and_history' also to the histories that "
        "validation and test targets are predicted from. Targets stay clean.",
    )
    noise_seed: int = _key(0, integer(0), "Seed of the noise, independent of the seed of the run.")
    exclude_history: bool = _key(
        False,
        boolean(),
        "Leave the items of the user's history out of the ranking, in validation and test. RecBole's "
        "sequential models rank all items.",
        section="Evaluation",
    )
    resume: bool = _key(
        False,
        boolean(),
        "Resume the unfinished run with this exact configuration in checkpoint_dir, if there is one.",
        section="Runs",
    )
    trust_checkpoint: bool = _key(
        False,
        boolean(),
        "Load checkpoints that can run code when opened (RecBole's own format). Only for files you made.",
    )
    trust_cache: bool = _key(
        False,
        boolean(),
        "Load RecBole's saved datasets and dataloaders, which can run code when opened. Only for files you "
        "made.",
    )
    detect_anomaly: bool = _key(
        False,
        boolean(),
        "Switch on torch's anomaly detection, which RecBole forces on and this package switches off.",
    )
    download: str = _key(
        "ask",
        one_of("ask", "yes"),
        "'ask' before downloading more than a gigabyte, as RecBole does; 'yes' never asks (--yes).",
    )

    def check_benchmark_files(self) -> None:
        """``benchmark_filename``'s rows take no noise, and do not say what their users interacted with."""
        for key in ("noise_ratio", "exclude_history"):
            if getattr(self, key):
                raise ConfigError(f"The key {key} cannot be used with benchmark_filename; unset one of them.")


NOISE_KEYS = tuple(name for name in PackageSettings.names() if name.startswith("noise_"))


@dataclass(frozen=True)
class AsarSettings(Settings):
    """Keys of the Asar models."""

    recipe: str = _key(
        "robust",
        one_of(*RECIPES),
        "How the model is trained, whatever its augmentation (properties/recipe). 'robust' adds denoising, "
        "generalized cross-entropy, a history penalty, co-occurrence initialization and EMA; 'plain' adds "
        "nothing; 'paper' is 'plain' with the paper's literal budget. Any key given by you overrides it.",
        section="Recipe",
    )
    item_init: str = _key(
        "random",
        one_of("random", "cooccurrence"),
        "Initial item embeddings: the backbone's own, or from which items follow each other in training. "
        "robust: cooccurrence.",
    )
    gce_q: float | str = _key(
        0.0,
        either("auto", number(0, 1)),
        "Generalized cross-entropy (1 - p^q) / q: the larger q, the less unpredictable targets weigh. 0 is "
        "cross-entropy. robust: auto, 0.1 with a softmax over inner products, else 0.",
        "q",
    )
    history_penalty: float | str = _key(
        1.0,
        either("auto", number(1)),
        "Weight of the items of the user's history among the negatives of the softmax. robust: auto, 3 "
        "unless 1 % of the targets are repeated items or histories average more than 20 items.",
    )
    ema_decay: float | str = _key(
        0.0,
        either("auto", number(0, 1, open_high=True)),
        "Validate and save an exponential moving average (EMA) of the weights. 0 is off. robust: auto, an "
        "average over two epochs, at most 0.999.",
    )
    denoise_strength: float = _key(
        0.0,
        number(0),
        "Drop items that fit poorly into their history from training sequences, redrawn each epoch: factor "
        "on the drop probability. robust: 1.",
    )
    denoise_mode: str = _key(
        "score",
        one_of("score", "random"),
        "'score' drops by how poorly an item fits; 'random' drops as many at random, as a control.",
    )
    training: str = _key(
        "auto",
        one_of("auto", "prefix", "all_positions"),
        "'prefix' has one row for each history and its next item, as RecBole does; 'all_positions' has one "
        "row for each user's sequence and a target at every position (causal backbones). auto: "
        "all_positions where possible.",
        section="Training",
    )
    batching: str = _key(
        "bucketed",
        one_of("bucketed", "random"),
        "'bucketed' batches rows of similar length, trimmed to the longest; 'random' is RecBole's batching.",
    )
    byte_dropout: bool = _key(
        True,
        boolean(),
        "On a CPU, draw dropout masks from random bytes (p to 1/256) instead of torch's slower generator.",
    )
    fused: bool = _key(
        True,
        boolean(),
        "Compute softmax cross-entropy, GELU and, on a CPU, Adam in fewer passes; equal to RecBole's up to "
        "float rounding.",
    )
    augmentation: str | Sequence[str] = _key(
        "asar",
        _augmentation(),
        "How views are made, and nothing else: 'asar' (learned), 'random_matrix' (random matrices with as "
        "many edits), a fixed operation, 'cl4srec' (mask one view, reorder the other), 's3rec' (predicts "
        "masked items), 'none', or a list of operations: two make one view each, of more each view takes "
        "one at random.",
        section="Contrastive term",
    )
    operation_ratio: float | None = _key(
        None,
        either(None, number(0, 1, open_low=True, open_high=True)),
        "Share of a history that a fixed operation edits; ~ takes perturbation_budget.",
    )
    similarity: str = _key(
        "item_cf",
        one_of("item_cf", "embedding"),
        "How CoSeRec finds similar items: 'item_cf' (users in common) or 'embedding' (the model's own).",
    )
    contrastive_weight: float = _key(0.1, number(0), "Weight of InfoNCE in the loss. 0 makes no views.", "λ")
    temperature: float = _key(0.2, number(0, open_low=True), "Temperature of InfoNCE.", "τ")
    symmetric_infonce: bool = _key(
        False, boolean(), "Average InfoNCE over both directions; the paper writes one."
    )
    contrast_on: str = _key(
        "auto",
        one_of("auto", "user", "prefix"),
        "'user' contrasts each user's full history, once an epoch; 'prefix' every history a target is "
        "predicted from. auto: prefix with all_positions, else user.",
    )
    contrast_ratio: float = _key(
        0.5,
        number(0, 1, open_low=True),
        "Share of the batches that are contrasted, with contrast_on: prefix.",
    )
    perturbation_budget: float = _key(
        0.1,
        number(0, 1, open_low=True, open_high=True),
        "Share of a history that may be edited.",
        "γ",
        section="Perturbation budget",
    )
    min_edits: int = _key(1, integer(0), "Smallest budget of a user. 0 is the paper's floor(γn).")
    edit_cap: bool = _key(
        True, boolean(), "Undo a view's least wanted edits beyond max(min_edits, ceil(γn))."
    )
    num_candidates: int = _key(
        3, integer(0), "Unseen items offered to Insert and Substitute.", "k", section="Transition encoder"
    )
    augmenter_hidden_size: int = _key(32, integer(1), "Hidden size of the transition encoder.", "d'")
    encode_position: bool = _key(
        True, boolean(), "Give the encoder item + position embeddings instead of items alone."
    )
    identity_bias: float | str = _key(
        "calibrated",
        either("calibrated", number(-1e4, 1e4)),
        "Bias on the diagonal of the transition logits; 'calibrated' starts at γ edits for any length.",
    )
    gumbel_scale: float = _key(
        1.0, number(0), "Scale of the Gumbel noise on the transition logits. 0 switches exploration off."
    )
    sinkhorn_rounds: int = _key(10, integer(1), "Normalization rounds.", "T", section="Semi-Sinkhorn")
    sinkhorn_threshold: float = _key(
        0.1,
        number(0),
        "A row or column whose entries differ by less than this / (n+k) is set to zero.",
        "δ",
    )
    assignment: str = _key(
        "mutual",
        one_of("mutual", "one_pass"),
        "Rounding to a hard matrix: iterated mutual argmax, or its first pass.",
    )
    keep_columns: str = _key(
        "history",
        one_of("history", "all"),
        "Positions that make the view: the n of the history, or all n+k.",
    )
    gradient_reversal: float = _key(
        1.0,
        number(0),
        "Strength of InfoNCE's reversed gradient on the augmenter.",
        section="Augmenter loss",
    )
    diversity_weight: float = _key(1.0, number(0), "Weight of the diversity loss.", "λ_div")
    diversity_margin: float = _key(20.0, number(0), "Distance the two matrices should keep.", "ε")
    diversity_ratio: float = _key(
        0.2, number(0), "The distance asked of n items is at most 2n times this. 0 takes ε literally.", "ρ"
    )
    semantic_weight: float = _key(5.0, number(0), "Weight of the sequence-aware NDCG loss.", "λ_NDCG")
    ndcg_gain: str = _key(
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
    "train_neg_sample_args": (None, "dict", "None for CE; with loss_type BPR one uniform negative is drawn."),
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
