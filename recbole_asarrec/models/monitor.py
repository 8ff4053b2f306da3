"""What people watch while the augmenter learns: what it does to histories, and how hard the game is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from logging import getLogger

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recbole_asarrec.augment.augmenter import Transform
from recbole_asarrec.augment.view import View
from recbole_asarrec.errors import DivergedError

_REMEDIES = {
    "recommendation": "lower learning_rate or set clip_grad_norm: {max_norm: 5}",
    "contrastive": "raise temperature, or lower contrastive_weight or learning_rate",
    "augmenter": "lower diversity_weight, semantic_weight, reversal or learning_rate",
}
_COLLAPSED_FOR = 3  # reports in a row before InfoNCE at its ceiling is called a collapse
EDIT_KINDS = ("kept", "dropped", "moved", "inserted", "substituted")


@torch.no_grad()
def count_edits(source: Tensor, length: Tensor) -> dict[str, Tensor]:
    """Sort the items of a batch of plans by what happened to them.

    Args:
        source: plans, ``[B, n]``; values from the history's width on are candidates.
        length: n per user, ``[B]``.

    Returns:
        Counts per kind, each ``[B]``. ``kept + moved + dropped`` is the history's length; a new item is
        *substituted* where the item whose place it takes was dropped, else *inserted*.
    """
    batch, width = source.shape
    place = torch.arange(width, device=source.device).expand(batch, width)
    own = place < length[:, None]  # history items, by index
    old = (source >= 0) & (source < length[:, None])
    new = source >= length[:, None]
    scratch = torch.zeros(batch, width + 1, dtype=torch.bool, device=source.device)
    used = scratch.scatter(1, torch.where(old, source, width), True)[:, :width]
    kept = (old & (source == place)).sum(1)
    substituted = new & own & ~used
    return {
        "kept": kept,
        "dropped": (own & ~used).sum(1),
        "moved": old.sum(1) - kept,
        "inserted": (new & ~substituted).sum(1),
        "substituted": substituted.sum(1),
    }


def refuse_broken_weights(model: nn.Module, when: str) -> None:
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


class Health:
    """Sums over an epoch, without waiting for the device at every step.

    Args:
        twins: views of equal items are meant to be, as with dropout alone.
    """

    def __init__(self, twins: bool = False) -> None:
        self._sums: dict[str, Tensor] = {}
        self._weights: dict[str, float | Tensor] = {}
        self._batch = 0
        self._twins = twins
        self._at_ceiling = 0
        self._warned: set[str] = set()

    def refuse_diverged(self, model: nn.Module, names: Sequence[str], losses: Sequence[Tensor]) -> None:
        """Stop at the first batch with a loss that is not finite.

        Raises:
            DivergedError: naming the term, the batch of the epoch and the keys that calm it.
        """
        self._batch += 1
        if torch.stack([loss.detach() for loss in losses]).isfinite().all():
            return
        refuse_broken_weights(model, f"before batch {self._batch} of the epoch")
        name, loss = next((name, loss) for name, loss in zip(names, losses) if not loss.isfinite())
        raise DivergedError(
            f"The {name} loss is {loss.item()} in batch {self._batch} of the epoch; "
            f"what was saved before is kept; {_REMEDIES[name]}."
        )

    def _add(self, name: str, values: Tensor, weight: float | Tensor) -> None:
        self._sums[name] = self._sums.get(name, 0) + values.detach().float().sum()
        self._weights[name] = self._weights.get(name, 0) + weight

    @torch.no_grad()
    def observe(self, views: tuple[View, View], contrast: Tensor, pairs: int) -> None:
        """Take in the two views of R users and the InfoNCE of so many pairs."""
        users = len(views[0].length)
        first, second = (view.items for view in views)
        width = max(first.size(1), second.size(1))
        first, second = (F.pad(items, (0, width - items.size(1))) for items in (first, second))
        self._add("identical_views", (first == second).all(1), users)
        self._add("empty_views", (views[0].length == 0) | (views[1].length == 0), users)
        self._add("infonce", contrast * users, users)
        self._add("infonce_ceiling", contrast.new_tensor(math.log(pairs) * users), users)

    @torch.no_grad()
    def observe_plans(
        self,
        transforms: tuple[Transform, Transform],
        length: Tensor,
        scores: tuple[Tensor, ...],
        floor: Tensor,
    ) -> None:
        """Take in what the matrices do to R histories, the views' NDCG and its bound, each ``[R]``."""
        users = len(length)
        for number, (transform, score) in enumerate(zip(transforms, scores), 1):
            for kind, count in count_edits(transform.source, length).items():
                self._add(f"view{number}/{kind}", count / length, users)
            self._add(f"view{number}/ndcg", score, users)
            self._add(f"view{number}/ndcg_below_floor", score < floor, users)
        self._add("ndcg_floor", floor, users)

    @torch.no_grad()
    def observe_cleaning(self, items: Tensor, kept: Tensor) -> None:
        """Take in which items ``[B, n]`` the recommender is going to learn from, ``[B, n]``."""
        real = items > 0
        self._add("left_out", real & ~kept, real.sum())

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
            "perturbation, gumbel_scale or min_edits.": means["identical_views"] > 0.99 and not self._twins,
            "Some views are empty; lower perturbation or operation_ratio.": means["empty_views"] > 0.01,
            "InfoNCE stays at log B: two views of a user are no more alike than views of two users; lower "
            "temperature, perturbation or reversal.": self._at_ceiling >= _COLLAPSED_FOR,
        }
        for warning in [one for one, now in happens.items() if now and one not in self._warned]:
            self._warned.add(warning)
            getLogger().warning(warning)
