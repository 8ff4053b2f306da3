"""The plugin's configuration keys, typed and checked.

``properties/model/Asar.yaml`` documents every key for users; a test holds its defaults to these.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from recbole_asarrec.errors import ConfigError, nearest


@dataclass(frozen=True)
class Rule:
    """What a key's value must be: a sentence for people and a test for the machine."""

    text: str
    holds: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def number(low: float, high: float = math.inf, *, open_low: bool = False, open_high: bool = False) -> Rule:
    """A finite number between two bounds."""
    left = f"greater than {low}" if open_low else f"at least {low}"
    right = "" if high == math.inf else f" and {'less than' if open_high else 'at most'} {high}"

    def holds(value: Any) -> bool:
        return (
            _is_number(value)
            and (value > low if open_low else value >= low)
            and (value < high if open_high else value <= high)
        )

    return Rule(f"a number {left}{right}", holds)


def integer(low: int) -> Rule:
    """A whole number from ``low`` on."""
    return Rule(
        f"a whole number, at least {low}",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= low,
    )


def one_of(*names: str) -> Rule:
    """One of several words."""
    return Rule("one of " + ", ".join(names), lambda value: isinstance(value, str) and value in names)


def yes_or_no() -> Rule:
    """True or False."""
    return Rule("True or False", lambda value: isinstance(value, bool))


def either(word: str | None, rule: Rule) -> Rule:
    """A word, or what another rule says."""
    return Rule(f"{word!r} or {rule.text}", lambda value: value == word or rule.holds(value))


OPERATIONS = (
    "crop",
    "mask",
    "reorder",
    "insert",
    "substitute",
    "coserec_insert",
    "coserec_substitute",
    "dropout",
)
CONTROLS = ("no_views", "random_matrix")  # have all that goes with AsarRec's views
VIEWLESS = ("none", "no_views")
AUGMENTATIONS = ("asar", "none", *CONTROLS, "cl4srec", "s3rec", *OPERATIONS)


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
    )


def refuse_unfit(key: str, value: Any, rule: Rule) -> None:
    """Raise a ConfigError that names the key, its value and what it should be, unless the rule holds."""
    if not rule.holds(value):
        guess = nearest(value, re.findall(r"\w+", rule.text)) if isinstance(value, str) else ""
        shown = repr(value) if len(repr(value)) < 200 else f"{repr(value)[:200]}…"
        raise ConfigError(f"The key '{key}' must be {rule.text}, but is {shown}{guess}.")


def _key(default: Any, rule: Rule) -> Any:
    return field(default=default, metadata={"rule": rule})


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
            refuse_unfit(f.name, values[f.name], f.metadata["rule"])
        return cls(**values)


@dataclass(frozen=True)
class PackageSettings(Settings):
    """Keys that hold for every model run through the package (``properties/overall.yaml``)."""

    noise_ratio: float = _key(0.0, number(0, 1, open_high=True))
    noise_kind: str = _key("replace", one_of("replace", "insert"))
    noise_scope: str = _key("train", one_of("train", "train_and_history"))
    noise_seed: int = _key(0, integer(0))
    exclude_history: bool = _key(False, yes_or_no())
    resume: bool = _key(False, yes_or_no())
    trust_checkpoint: bool = _key(False, yes_or_no())
    trust_cache: bool = _key(False, yes_or_no())
    detect_anomaly: bool = _key(False, yes_or_no())
    download: str = _key("ask", one_of("ask", "yes"))

    def refuse_ready_rows(self) -> None:
        """``benchmark_filename``'s rows take no noise, nor do they say what their users had before."""
        for key in ("noise_ratio", "exclude_history"):
            if getattr(self, key):
                raise ConfigError(f"The key {key} cannot be used with benchmark_filename; unset one of them.")


NOISE_KEYS = tuple(name for name in PackageSettings.names() if name.startswith("noise_"))


@dataclass(frozen=True)
class AsarSettings(Settings):
    """Keys of the Asar models (``properties/model/Asar.yaml``)."""

    preset: str = _key("default", one_of("default", "paper"))
    # how rows are trained
    training: str = _key("auto", one_of("auto", "prefix", "all_positions"))
    batching: str = _key("like_length", one_of("like_length", "random"))
    byte_dropout: bool = _key(True, yes_or_no())
    fused: bool = _key(True, yes_or_no())
    # the contrastive term
    augmentation: str | Sequence[str] = _key("asar", _augmentation())
    operation_ratio: float | None = _key(None, either(None, number(0, 1, open_low=True, open_high=True)))
    similarity: str = _key("item_cf", one_of("item_cf", "embedding"))
    contrastive_weight: float = _key(0.1, number(0))
    temperature: float = _key(0.2, number(0, open_low=True))
    symmetric: bool = _key(False, yes_or_no())
    contrastive_rows: str = _key("auto", one_of("auto", "user", "all"))
    # what goes with it
    item_start: str = _key("auto", one_of("auto", "random", "cooccurrence"))
    robustness: float | str = _key("auto", either("auto", number(0, 1)))
    seen_weight: float | str = _key("auto", either("auto", number(1)))
    averaging: float | str = _key("auto", either("auto", number(0, 1, open_high=True)))
    cleaning: float | str = _key("auto", either("auto", number(0)))
    # the budget
    perturbation: float = _key(0.1, number(0, 1, open_low=True, open_high=True))
    min_edits: int = _key(1, integer(0))
    edit_cap: bool = _key(True, yes_or_no())
    # the transition encoder
    candidates: int = _key(3, integer(0))
    augmenter_size: int = _key(32, integer(1))
    encode_position: bool = _key(True, yes_or_no())
    identity_bias: float | str = _key("auto", either("auto", number(-1e4, 1e4)))
    gumbel_scale: float = _key(1.0, number(0))
    # Semi-Sinkhorn
    sinkhorn_rounds: int = _key(10, integer(1))
    sinkhorn_threshold: float = _key(0.1, number(0))
    assignment: str = _key("mutual", one_of("mutual", "one_pass"))
    keep_columns: str = _key("history", one_of("history", "all"))
    # the augmenter's objectives
    reversal: float = _key(1.0, number(0))
    diversity_weight: float = _key(1.0, number(0))
    diversity_margin: float = _key(20.0, number(0))
    diversity_ratio: float = _key(0.2, number(0))
    semantic_weight: float = _key(5.0, number(0))
    ndcg_gain: str = _key("linear", one_of("linear", "exponential"))

    @property
    def plays(self) -> bool:
        """Whether this is AsarRec or one of its controls, which have all that goes with its views."""
        return self.augmentation in ("asar", *CONTROLS) and self.contrastive_weight > 0

    @property
    def compares_views(self) -> bool:
        """Whether there is a contrastive term."""
        return self.augmentation not in VIEWLESS and self.contrastive_weight > 0

    @property
    def operation_budget(self) -> float:
        """The share of a history that a fixed operation edits: its own, or the budget γ."""
        return self.perturbation if self.operation_ratio is None else self.operation_ratio
