"""EMA: validate, save and serve a running average of the weights that are trained.

Training steps jump around a good solution; their exponential average lies nearer to it (Polyak and Juditsky
1992; Tarvainen and Valpola 2017). It costs one pass over the weights a step and nothing at inference: what
is saved is a plain backbone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

_WARM_UP = 10  # early averages forget faster, or the random start would stay in them


class EMA:
    """An exponential moving average of parameters.

    Call :meth:`update` after each step of the optimizer (``optimizer.register_step_post_hook``), and evaluate
    and save inside :meth:`applied`.

    Args:
        parameters: names and parameters to average.
        decay: how much of the average stays at each step, at least 0 and below 1.
    """

    def __init__(self, parameters: Iterable[tuple[str, nn.Parameter]], decay: float) -> None:
        self.decay, self.steps = decay, 0
        self._parameters = dict(parameters)
        self._average = {name: one.detach().clone() for name, one in self._parameters.items()}
        self._is_applied = False

    @torch.no_grad()
    def update(self, *_: Any) -> None:
        """Take in the weights that a step has left."""
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + _WARM_UP))
        weights = [one.data for one in self._parameters.values()]
        torch._foreach_lerp_(list(self._average.values()), weights, 1 - decay)

    @torch.no_grad()
    def restart(self) -> None:
        """Begin with the weights of now."""
        self.steps = 0
        for name, parameter in self._parameters.items():
            self._average[name].copy_(parameter)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Inside, the parameters are the average; afterwards the trained ones again."""
        if self._is_applied:
            yield
            return
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    @torch.no_grad()
    def _exchange(self) -> None:
        for name, parameter in self._parameters.items():
            trained = parameter.detach().clone()
            parameter.copy_(self._average[name])
            self._average[name].copy_(trained)
        self._is_applied = not self._is_applied

    def state_dict(self) -> dict[str, Any]:
        """The trained weights, the average and the number of steps, whichever of them is applied."""
        parameters = {name: one.detach() for name, one in self._parameters.items()}
        trained, average = (self._average, parameters) if self._is_applied else (parameters, self._average)
        return {"steps": self.steps, "trained": dict(trained), "average": dict(average)}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state_dict`: parameters become the trained weights again."""
        self.steps = int(state["steps"])
        trained: Mapping[str, Tensor] = state["trained"]
        for name, parameter in self._parameters.items():
            parameter.copy_(trained[name])
            self._average[name].copy_(state["average"][name])
