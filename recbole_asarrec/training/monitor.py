"""What people watch while the augmenter learns: its edits, the views' quality, InfoNCE."""

from __future__ import annotations

import math
from collections.abc import Sequence
from logging import getLogger
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recbole_asarrec.errors import DivergedError

if TYPE_CHECKING:  # importing the models would import RecBole before it is patched
    from recbole_asarrec.losses import SequenceQuality
    from recbole_asarrec.models.training_step import Contrast, TrainingStep

_REMEDIES = {
    "recommendation": "lower learning_rate or set clip_grad_norm: {max_norm: 5}",
    "contrastive": "raise temperature, or lower contrastive_weight or learning_rate",
    "augmenter": "lower diversity_weight, semantic_weight, gradient_reversal or learning_rate",
}
_COLLAPSED_FOR = 3  # reports in a row before InfoNCE at its ceiling is called a collapse
EDIT_KINDS = ("kept", "dropped", "moved", "inserted", "substituted", "masked", "cropped")


@torch.no_grad()
def count_edits(source: Tensor, length: Tensor) -> dict[str, Tensor]:
    """Sort the items of a batch of index maps by what happened to them.

    Args:
        source: index maps, ``[B, n]``; values from the history's width on are candidates.
        length: n per user, ``[B]``.

    Returns:
        Counts per kind, each ``[B]``. ``kept + moved + dropped`` is the history's length. A new item is
        *substituted* where the item of that position was dropped, else *inserted*. A dropped item whose
        position stays empty is *cropped* if all positions before or after it are empty too, else *masked*.
    """
    batch, width = source.shape
    position = torch.arange(width, device=source.device).expand(batch, width)
    own = position < length[:, None]  # history items, by index
    old = (source >= 0) & (source < length[:, None])
    new = source >= length[:, None]
    scratch = torch.zeros(batch, width + 1, dtype=torch.bool, device=source.device)
    used = scratch.scatter(1, torch.where(old, source, width), True)[:, :width]
    kept = (old & (source == position)).sum(1)
    substituted = new & own & ~used
    empty = own & (source < 0)
    filled = (own & ~empty).long()
    at_an_end = (filled.cumsum(1) == 0) | (filled.flip(1).cumsum(1).flip(1) == 0)
    left_empty = empty & ~used
    return {
        "kept": kept,
        "dropped": (own & ~used).sum(1),
        "moved": old.sum(1) - kept,
        "inserted": (new & ~substituted).sum(1),
        "substituted": substituted.sum(1),
        "masked": (left_empty & ~at_an_end).sum(1),
        "cropped": (left_empty & at_an_end).sum(1),
    }


def check_weights(model: nn.Module, when: str) -> None:
    """Stop if a weight is not finite.

    Raises:
        DivergedError: naming the first such weight and ``when`` it was seen.
    """
    for name, weight in model.named_parameters():
        if not weight.isfinite().all():
            raise DivergedError(
                f"The weight '{name}' is no longer finite {when}; what was saved before is kept; "
                f"{_REMEDIES['recommendation']}."
            )


class AugmenterMonitor:
    """Means over an epoch of what the augmenter and denoising do, without waiting for the device.

    Args:
        loss_names: of the model's losses, in order.
        identical_by_design: both views have equal items, as with dropout alone.
    """

    def __init__(self, loss_names: Sequence[str], identical_by_design: bool = False) -> None:
        self._loss_names = loss_names
        self._sums: dict[str, Tensor] = {}
        self._weights: dict[str, float | Tensor] = {}
        self._batch = 0
        self._identical_by_design = identical_by_design
        self._at_ceiling = 0
        self._warned: set[str] = set()

    @torch.no_grad()
    def update(self, step: TrainingStep, model: nn.Module) -> None:
        """Take in a training step.

        Raises:
            DivergedError: a loss is not finite; names the term, the batch and the keys to lower.
        """
        self._check_finite(step.losses, model)
        if step.kept is not None:
            real = step.kept.sequence > 0
            self._add("denoised", real & ~step.kept.kept, real.sum())
        if step.contrast is not None:
            self._add_views(step.contrast)
            if step.contrast.quality is not None:
                self._add_edits(step.contrast, step.contrast.quality)

    def _check_finite(self, losses: Sequence[Tensor], model: nn.Module) -> None:
        self._batch += 1
        if torch.stack([loss.detach() for loss in losses]).isfinite().all():
            return
        check_weights(model, f"before batch {self._batch} of the epoch")
        name, loss = next((name, loss) for name, loss in zip(self._loss_names, losses) if not loss.isfinite())
        raise DivergedError(
            f"The {name} loss is {loss.item()} in batch {self._batch} of the epoch; "
            f"what was saved before is kept; {_REMEDIES[name]}."
        )

    def _add(self, name: str, values: Tensor, weight: float | Tensor) -> None:
        self._sums[name] = self._sums.get(name, 0) + values.detach().float().sum()
        self._weights[name] = self._weights.get(name, 0) + weight

    def _add_views(self, contrast: Contrast) -> None:
        views, users = contrast.views.views, len(contrast.length)
        first, second = (view.items for view in views)
        width = max(first.size(1), second.size(1))
        first, second = (F.pad(items, (0, width - items.size(1))) for items in (first, second))
        self._add("identical_views", (first == second).all(1), users)
        self._add("empty_views", (views[0].length == 0) | (views[1].length == 0), users)
        self._add("infonce", contrast.infonce * users, users)
        self._add("infonce_ceiling", contrast.infonce.new_tensor(math.log(contrast.pairs) * users), users)

    def _add_edits(self, contrast: Contrast, quality: SequenceQuality) -> None:
        length, users = contrast.length, len(contrast.length)
        for number, (matrix, ndcg) in enumerate(zip(contrast.views.matrices or (), quality.ndcg), 1):
            for kind, count in count_edits(matrix.source, length).items():
                self._add(f"view{number}/{kind}", count / length, users)
            self._add(f"view{number}/ndcg", ndcg, users)
            self._add(f"view{number}/ndcg_below_floor", ndcg < quality.floor, users)
        self._add("ndcg_floor", quality.floor, users)

    def report(self) -> dict[str, float]:
        """Means since the last report, by name; edit kinds are shares of a user's history."""
        means = {name: float(total) / float(self._weights[name]) for name, total in self._sums.items()}
        self._sums, self._weights, self._batch = {}, {}, 0
        if "infonce" in means:
            self._warn_of_collapse(means)
        return means

    def _warn_of_collapse(self, means: dict[str, float]) -> None:
        """Say once what makes the game pointless, though its losses look fine."""
        ceiling = means["infonce_ceiling"]
        self._at_ceiling = self._at_ceiling + 1 if 0 < 0.98 * ceiling <= means["infonce"] else 0
        happens = {
            "Both views of nearly every user are the same, so there is nothing to learn from them; raise "
            "perturbation_budget, gumbel_scale or min_edits.": means["identical_views"] > 0.99
            and not self._identical_by_design,
            "Some views are empty; lower perturbation_budget or operation_ratio.": means["empty_views"]
            > 0.01,
            "InfoNCE stays at its ceiling: two views of a user are no more alike than those of two; lower "
            "temperature, perturbation_budget or gradient_reversal.": self._at_ceiling >= _COLLAPSED_FOR,
        }
        for warning in [one for one, now in happens.items() if now and one not in self._warned]:
            self._warned.add(warning)
            getLogger().warning(warning)


def describe(stats: dict[str, float]) -> str:
    """One line for the log, e.g. ``view 1 kept 90.1% …, ndcg 0.930; view 2 …; ndcg floor 0.740; …``."""
    parts = []
    for number in (1, 2) if "ndcg_floor" in stats else ():
        edits = " ".join(f"{kind} {stats[f'view{number}/{kind}']:.1%}" for kind in EDIT_KINDS)
        parts.append(f"view {number} {edits}, ndcg {stats[f'view{number}/ndcg']:.3f}")
    if parts:
        parts.append(f"ndcg floor {stats['ndcg_floor']:.3f}")
    if "infonce" in stats:
        parts.append(f"identical {stats['identical_views']:.1%}, infonce {stats['infonce']:.3f}")
    if "denoised" in stats:
        parts.append(f"denoised {stats['denoised']:.1%}")
    return "; ".join(parts)
