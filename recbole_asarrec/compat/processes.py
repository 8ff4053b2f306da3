"""RecBole's metrics over several processes: each counts as many users as it ranked."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from recbole_asarrec.compat.patching import hook


@hook(
    "self scores_tensor interaction positive_u positive_i",
    "recbole.evaluator.collector:Collector.eval_batch_collect",
)
def _eval_batch_collect(original: Callable) -> Callable:
    """Bug: metrics over processes need to know how many users each ranked."""

    @functools.wraps(original)
    def eval_batch_collect(self: Any, scores_tensor: Any, *args: Any) -> None:
        self.users_ranked = getattr(self, "users_ranked", 0) + len(scores_tensor)
        original(self, scores_tensor, *args)

    return eval_batch_collect


@hook("self result num_sample", "recbole.trainer.trainer:Trainer._map_reduce")
def _map_reduce(original: Callable) -> Callable:
    """Bug: RecBole weighs processes by batch parts, not by users."""

    @functools.wraps(original)
    def map_reduce(self: Any, result: Any, num_sample: int) -> Any:
        # RecBole counts the parts of what a loader yields, four a batch whatever it holds
        ranked, self.eval_collector.users_ranked = self.eval_collector.users_ranked, 0
        return original(self, result, ranked)

    return map_reduce
