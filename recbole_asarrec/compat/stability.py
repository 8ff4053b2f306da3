"""RecBole's trainers stop at numbers that are none, and keep what was saved before."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from recbole_asarrec.compat.patching import hook
from recbole_asarrec.errors import DivergedError
from recbole_asarrec.training.monitor import check_weights


@hook("self loss", "recbole.trainer.trainer:Trainer._check_nan")
def _check_nan(original: Callable) -> Callable:
    """Messages: names what is not finite and what to lower."""

    @functools.wraps(original)
    def check_nan(self: Any, loss: torch.Tensor) -> None:
        if torch.isnan(loss):
            check_weights(self.model, "during training")
            raise DivergedError("The training loss is nan; what was saved is kept; lower learning_rate.")

    return check_nan


@hook("self valid_data show_progress", "recbole.trainer.trainer:Trainer._valid_epoch")
def _valid_epoch(original: Callable) -> Callable:
    """Messages: weights that broke in the last step are noticed before they are validated."""

    @functools.wraps(original)
    def valid_epoch(self: Any, *args: Any, **kwargs: Any) -> Any:
        check_weights(self.model, "after the epoch")  # its last step is seen by no loss
        return original(self, *args, **kwargs)

    return valid_epoch
