"""The keys that apply to every model, stock models included."""

from __future__ import annotations

from dataclasses import dataclass

from recbole_asarrec.config.base import Settings, key
from recbole_asarrec.config.rules import boolean, either, integer, number, one_of, text
from recbole_asarrec.errors import ConfigError


@dataclass(frozen=True)
class PackageSettings(Settings):
    """Keys that apply to every model, stock models included."""

    noise_ratio: float = key(
        0.0,
        number(0, 1, open_high=True),
        "Share of each user's training items that are turned into noise.",
        section="Noise",
    )
    noise_kind: str = key(
        "replace",
        one_of("replace", "insert"),
        "'replace' exchanges an item for a random unseen one; 'insert' adds one between two items.",
    )
    noise_scope: str = key(
        "train",
        one_of("train", "train_and_history"),
        "'train' adds noise to training data only; 'train_and_history' also to the histories that "
        "validation and test targets are predicted from. Targets stay clean.",
    )
    noise_seed: int = key(0, integer(0), "Seed of the noise, independent of the seed of the run.")
    drop_repeating_users: bool = key(
        False,
        boolean(),
        "Leave out users who interacted with an item more than once.",
        section="Data",
    )
    exclude_history: bool = key(
        False,
        boolean(),
        "Leave the items of the user's history out of the ranking, in validation and test. RecBole's "
        "sequential models rank all items.",
        section="Evaluation",
    )
    resume: bool = key(
        False,
        boolean(),
        "Resume the unfinished run with this exact configuration in checkpoint_dir, if there is one.",
        section="Runs",
    )
    warm_start: str | None = key(
        None,
        either(None, text("a .pth file that training saved")),
        "Start from this checkpoint of the same model, on data that has changed since (--from): known items "
        "keep their vectors, new ones start near those they occur with, others are dropped.",
    )
    trust_checkpoint: bool = key(
        False,
        boolean(),
        "Load checkpoints that can run code when opened (RecBole's own format). Only for files you made.",
    )
    trust_cache: bool = key(
        False,
        boolean(),
        "Load RecBole's saved datasets and dataloaders, which can run code when opened. Only for files you "
        "made.",
    )
    detect_anomaly: bool = key(
        False,
        boolean(),
        "Switch on torch's anomaly detection, which RecBole forces on and this package switches off.",
    )
    download: str = key(
        "ask",
        one_of("ask", "yes"),
        "'ask' before downloading more than a gigabyte, as RecBole does; 'yes' never asks (--yes).",
    )

    def check_benchmark_files(self) -> None:
        """``benchmark_filename``'s rows take no noise, and do not say what their users interacted with."""
        for name in ("noise_ratio", "exclude_history", "drop_repeating_users"):
            if getattr(self, name):
                raise ConfigError(
                    f"The key {name} cannot be used with benchmark_filename; unset one of them."
                )


NOISE_KEYS = tuple(name for name in PackageSettings.names() if name.startswith("noise_"))
