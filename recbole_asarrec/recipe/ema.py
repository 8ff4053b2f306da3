"""The recommender that is validated, saved and used: a running average of the one that is trained.

Steps of training jump around a good place; their exponential average lies nearer to it (Polyak and Juditsky
1992; Tarvainen and Valpola 2017). It costs one pass over the weights a step and nothing afterwards: in
evaluation mode the parameters *are* the average, so what is saved is a plain backbone.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

_WARM_UP = 10  # early averages forget faster, or the random start would stay in them


class WeightAverage(nn.Module):
    """An exponential average of parameters, all of its state in buffers, so that checkpoints carry it.

    Call :meth:`before_step` before each step of the optimiser, :meth:`show` and :meth:`hide` around
    evaluation.

    Args:
        parameters: names and parameters to average.
        decay: how much of the average stays at each step, at least 0 and below 1.
    """

    steps: Tensor
    stepping: Tensor
    shown: Tensor

    def __init__(self, parameters: Iterable[tuple[str, nn.Parameter]], decay: float) -> None:
        super().__init__()
        named = dict(parameters)
        self.decay = decay
        self._averaged = list(named.values())  # a plain list: they belong to the recommender
        self._names = [f"of {name.replace('.', '/')}" for name in named]
        for name, parameter in zip(self._names, self._averaged):
            self.register_buffer(name, parameter.detach().clone())
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.register_buffer("stepping", torch.zeros((), dtype=torch.bool))  # a step is under way
        self.register_buffer("shown", torch.zeros((), dtype=torch.bool))  # the parameters are the average

    def _averages(self) -> list[Tensor]:
        return [self.get_buffer(name) for name in self._names]

    @torch.no_grad()
    def before_step(self) -> None:
        """Take in the weights that the step before has left."""
        self._take_in()
        self.stepping.fill_(True)

    def _take_in(self) -> None:
        if not self.stepping:
            return
        self.steps += 1
        steps = int(self.steps)
        decay = min(self.decay, steps / (steps + _WARM_UP))
        torch._foreach_lerp_(self._averages(), [one.data for one in self._averaged], 1 - decay)
        self.stepping.fill_(False)

    @torch.no_grad()
    def show(self) -> None:
        """Make the parameters the average, and keep the trained ones aside."""
        if not self.shown:
            self._take_in()
            self._exchange()

    @torch.no_grad()
    def hide(self) -> None:
        """Make the parameters the trained ones again."""
        if self.shown:
            self._exchange()

    def _exchange(self) -> None:
        for average, parameter in zip(self._averages(), self._averaged):
            trained = parameter.detach().clone()
            parameter.copy_(average)
            average.copy_(trained)
        self.shown.logical_not_()
