"""RecBole's trainers: safe checkpoints, and several processes without a GPU."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from recbole_asarrec.compat.patching import hook, patch_source
from recbole_asarrec.errors import CheckpointError
from recbole_asarrec.training import checkpoint
from recbole_asarrec.version import __version__


@hook("self config model", "recbole.trainer.trainer:AbstractTrainer.__init__")
def _trainer(original: Callable) -> Callable:
    """Compatibility: DistributedDataParallel without a GPU."""

    @functools.wraps(original)
    def init(self: Any, config: Any, model: torch.nn.Module) -> None:
        if config["single_spec"] or config["device"].type != "cpu":
            original(self, config, model)
            return
        self.config, self.model = config, model
        self.distributed_model = DistributedDataParallel(model)

    return init


def ema_state(trainer: Any) -> dict[str, Any] | None:
    """The state of a trainer's EMA, if it has one."""
    ema = getattr(trainer, "ema", None)
    return ema.state_dict() if ema is not None else None


def load_ema_state(trainer: Any, state: Mapping[str, Any]) -> None:
    """Continue a trainer's EMA from a checkpoint's ``ema``."""
    ema = getattr(trainer, "ema", None)
    if ema is not None and state.get("ema"):
        ema.load_state_dict(state["ema"])


def _write(trainer: Any, epoch: int, path: Any) -> None:
    """Save a trainer as plain data: today's torch opens nothing else unless it is told to trust a file."""
    checkpoint.write(
        {
            "recbole_asarrec": __version__,
            "config": trainer.config.final_config_dict,
            "epoch": epoch,
            "cur_step": trainer.cur_step,
            "best_valid_score": trainer.best_valid_score,
            "state_dict": trainer.model.state_dict(),
            "other_parameter": trainer.model.other_parameter(),
            "optimizer": trainer.optimizer.state_dict(),
            "ema": ema_state(trainer),
            "item_tokens": getattr(trainer, "item_tokens", None),
        },
        path,
    )


@hook("self epoch verbose kwargs", "recbole.trainer.trainer:Trainer._save_checkpoint")
def _save(original: Callable) -> Callable:
    """Security: checkpoints hold data and no code, written atomically."""

    @functools.wraps(original)
    def save(self: Any, epoch: int, verbose: bool = True, **kwargs: Any) -> None:
        if not self.config["single_spec"] and self.config["local_rank"] != 0:
            return
        path = kwargs.pop("saved_model_file", self.saved_model_file)
        _write(self, epoch, path)
        if verbose:
            self.logger.info(f"Saving current: {path}")

    return save


@hook("self epoch saved_model_file", "recbole.trainer.trainer:PretrainTrainer.save_pretrained_model")
def _save_pretrained(original: Callable) -> Callable:
    """Security: the same for pretrained checkpoints."""

    @functools.wraps(original)
    def save_pretrained_model(self: Any, epoch: int, saved_model_file: str) -> None:
        _write(self, epoch, saved_model_file)
        self.saved_model_file = saved_model_file

    return save_pretrained_model


@hook("self resume_file", "recbole.trainer.trainer:Trainer.resume_checkpoint")
def _resume(original: Callable) -> Callable:
    """Security: reads checkpoints that hold no code."""

    @functools.wraps(original)
    def resume(self: Any, resume_file: Any) -> None:
        state = checkpoint.read(resume_file, self.device, bool(self.config["trust_checkpoint"]))
        checkpoint.load_into(self.model, state, resume_file)
        self.optimizer.load_state_dict(state["optimizer"])
        load_ema_state(self, state)
        self.saved_model_file = str(resume_file)
        self.start_epoch, self.cur_step = state["epoch"] + 1, state["cur_step"]
        self.best_valid_score = state["best_valid_score"]
        self.logger.info(f"Checkpoint loaded. Resume training from epoch {self.start_epoch}")

    return resume


def _read_for_all(trainer: Any, path: Any) -> dict[str, Any]:
    """Read a checkpoint; of several processes the first reads for all.

    RecBole names its file by the clock in every process, and only the first writes: another second, and the
    others look for a file that nobody wrote.
    """
    config = trainer.config
    trust = bool(config["trust_checkpoint"])
    if config["single_spec"]:
        return checkpoint.read(path, trainer.device, trust)
    box: list[Any] = [None]
    if config["local_rank"] + config["offset"] == 0:
        try:
            box = [checkpoint.read(path, "cpu", trust)]
        except CheckpointError as error:
            box = [error]
    torch.distributed.broadcast_object_list(box, src=0)
    if isinstance(box[0], CheckpointError):
        raise box[0]
    return box[0]


@hook("self eval_data load_best_model model_file show_progress", "recbole.trainer.trainer:Trainer.evaluate")
def _evaluate(original: Callable) -> Callable:
    """Security: reads checkpoints that hold no code; in several processes the first reads for all."""

    @functools.wraps(original)
    def evaluate(
        self: Any,
        eval_data: Any,
        load_best_model: bool = True,
        model_file: Any = None,
        show_progress: bool = False,
    ) -> Any:
        if eval_data and load_best_model:
            path = model_file or self.saved_model_file
            checkpoint.load_into(self.model, _read_for_all(self, path), path)
            self.logger.info(f"Loading model structure and parameters from {path}")
        result = original(self, eval_data, load_best_model=False, show_progress=show_progress)
        # numpy 2 prints its own floats as np.float64(…)
        return result and OrderedDict((name, float(value)) for name, value in result.items())

    return evaluate


patch_source(
    "new_ids domain trials seed nbMaxSucessiveFailures",
    "recbole.trainer.hyper_tuning:exhaustive_search",
    "Compatibility: for today's hyperopt",
    (
        "np.random.RandomState(seed)",
        '__import__("recbole_asarrec.compat.packages").compat.packages.hyperopt_generator(seed)',
    ),
)
