"""RecBole's trainer with EMA, named loss terms and a report of the augmenter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from recbole.trainer import Trainer
from recbole.utils import set_color
from torch import Tensor
from tqdm import tqdm

from recbole_asarrec.augment import operations_of
from recbole_asarrec.kernels.fused import use_fused_adam
from recbole_asarrec.recipe.ema import EMA
from recbole_asarrec.training.monitor import AugmenterMonitor, describe


class _LoaderWithProgress:
    """A data loader seen through a progress bar."""

    def __init__(self, loader: Any, bar: tqdm) -> None:
        self._loader, self._bar = loader, bar

    def __iter__(self) -> Iterator[Any]:
        return iter(self._bar)

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _RunningMeans:
    """The mean of each loss term over the batches that have it, for the progress bar.

    Args:
        names: of the terms, in the order of the model's losses.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._sums: dict[str, tuple[float, int]] = {}

    def update(self, losses: Tensor | tuple[Tensor, ...]) -> dict[str, str]:
        """Take in the losses of a batch; the means so far as text, by names that fit beside a bar."""
        each = losses if isinstance(losses, tuple) else (losses,)
        for name, loss in zip(self._names, each):
            if loss.requires_grad:  # a term that a batch lacks is a constant
                total, count = self._sums.get(name, (0.0, 0))
                self._sums[name] = (total + loss.item(), count + 1)
        return {name[:3]: f"{total / count:.3f}" for name, (total, count) in self._sums.items()}


class AsarTrainer(Trainer):
    """RecBole's trainer with an EMA of the weights and a monitor of the augmenter.

    Attributes:
        ema: the average that is validated and saved; nothing at ``ema_decay: 0``.
        monitor: watches every training step.
    """

    def __init__(self, config: Any, model: Any) -> None:
        super().__init__(config, model)
        decay = model.settings.ema_decay
        own = ((name, one) for name, one in model.named_parameters() if not name.startswith("augmenter."))
        self.ema = EMA(own, decay) if decay else None
        if self.ema is not None:
            self.optimizer.register_step_post_hook(self.ema.update)
        only_dropout = set(operations_of(model.settings.augmentation)) == {"dropout"}
        self.monitor = AugmenterMonitor(model.loss_names, identical_by_design=only_dropout)

    def _build_optimizer(self, **kwargs: Any) -> torch.optim.Optimizer:
        optimizer = super()._build_optimizer(**kwargs)
        if self.model.settings.fused:
            use_fused_adam(optimizer)
        return optimizer

    def averaged_weights(self) -> AbstractContextManager[None]:
        """Inside, the model has the weights that are evaluated and saved."""
        return self.ema.applied() if self.ema is not None else nullcontext()

    def _valid_epoch(self, valid_data: Any, show_progress: bool = False) -> Any:
        with self.averaged_weights():
            return super()._valid_epoch(valid_data, show_progress)

    def _save_checkpoint(self, epoch: int, verbose: bool = True, **kwargs: Any) -> None:
        with self.averaged_weights():
            super()._save_checkpoint(epoch, verbose=verbose, **kwargs)

    def evaluate(
        self,
        eval_data: Any,
        load_best_model: bool = True,
        model_file: Any = None,
        show_progress: bool = False,
    ) -> Any:
        """As RecBole's; evaluates the EMA weights unless the best checkpoint is loaded."""
        with nullcontext() if load_best_model else self.averaged_weights():
            return super().evaluate(eval_data, load_best_model, model_file, show_progress)

    def _training_step(self, interaction: Any) -> Any:
        step = self.model.training_step(interaction)
        self.monitor.update(step, self.model)
        return step.losses if len(step.losses) > 1 else step.losses[0]

    def _train_epoch(
        self, train_data: Any, epoch_idx: int, loss_func: Callable | None = None, show_progress: bool = False
    ) -> Any:
        loss_func = loss_func or self._training_step
        if not show_progress:
            losses = super()._train_epoch(train_data, epoch_idx, loss_func, show_progress=False)
            return self._mean_over_processes(losses)
        with tqdm(train_data, ncols=100, desc=set_color(f"Train {epoch_idx + 1:>5}", "pink")) as bar:
            means = _RunningMeans(self.model.loss_names)

            def shown(interaction: Any) -> Any:
                losses = loss_func(interaction)
                bar.set_postfix(means.update(losses), refresh=False)
                return losses

            losses = super()._train_epoch(
                _LoaderWithProgress(train_data, bar), epoch_idx, shown, show_progress=False
            )
        return self._mean_over_processes(losses)

    def _mean_over_processes(self, losses: Any) -> Any:
        """The losses of an epoch as the mean over processes; RecBole shows those of the first one's rows."""
        if self.config["single_spec"]:
            return losses
        mean = torch.tensor(losses, dtype=torch.double, device=self.device)
        torch.distributed.all_reduce(mean)
        mean /= self.config["world_size"]
        return tuple(mean.tolist()) if isinstance(losses, tuple) else mean.item()

    def _generate_train_loss_output(self, epoch_idx: int, s_time: float, e_time: float, losses: Any) -> str:
        line = super()._generate_train_loss_output(epoch_idx, s_time, e_time, losses)
        if isinstance(losses, tuple):
            for number, name in enumerate(self.model.loss_names, 1):
                line = line.replace(f"train_loss{number}", name)
        return line

    def _add_train_loss_to_tensorboard(self, epoch_idx: int, losses: Any, tag: str = "Loss/Train") -> None:
        stats = self.monitor.report()
        self.curve[-1]["augmenter"] = stats
        shown = {f"Augmenter/{name}": value for name, value in stats.items()}
        if isinstance(losses, tuple):
            shown.update({f"{tag}/{name}": loss for name, loss in zip(self.model.loss_names, losses)})
        else:
            super()._add_train_loss_to_tensorboard(epoch_idx, losses, tag)
        for name, value in shown.items():
            self.tensorboard.add_scalar(name, value, epoch_idx)
        self.wandblogger.log_metrics({**shown, "train_step": epoch_idx}, head="train")
        if stats:
            self.logger.info(set_color("augmenter", "blue") + f": {describe(stats)}")
