"""RecBole's ``fit``, which saves what each epoch starts from and can resume there."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from recbole_asarrec.compat.patching import hook
from recbole_asarrec.compat.training import ema_state, load_ema_state
from recbole_asarrec.errors import CheckpointError
from recbole_asarrec.training import checkpoint
from recbole_asarrec.training.monitor import check_weights
from recbole_asarrec.training.run_state import (
    SUFFIX,
    RunFile,
    fingerprint,
    random_state,
    restore_random_state,
)
from recbole_asarrec.training.warm_start import warm_start
from recbole_asarrec.version import __version__

_REMEMBERED = ("cur_step", "best_valid_score", "best_valid_result", "train_loss_dict", "curve")


class _ResumeState:
    """Keeps a trainer's state at the start of every epoch, in the first process for all."""

    def __init__(self, trainer: Any, train_data: Any, valid_data: Any) -> None:
        self.trainer = trainer
        self.loaders = [loader for loader in (train_data, valid_data) if loader]
        self.alone = bool(trainer.config["single_spec"])
        self.first = self.alone or trainer.config["local_rank"] + trainer.config["offset"] == 0
        rows = train_data._dataset.inter_feat
        columns = [rows[name] for name in (train_data._dataset.uid_field, train_data._dataset.iid_field)]
        self.fingerprint = fingerprint(trainer.config.final_config_dict, columns)
        self.file: RunFile | None = None
        self.resumed: dict[str, Any] | None = None

    def __enter__(self) -> _ResumeState:
        box: list[dict[str, Any] | None] = [None]
        if self.first:
            if self.trainer.config["resume"]:
                self.file = RunFile.find(Path(self.trainer.checkpoint_dir), self.fingerprint)
            if self.file is None:
                self.file = _new_run(Path(self.trainer.saved_model_file))
            else:
                box = [self.file.load()]
            self.trainer.saved_model_file = str(self.file.path.with_suffix(".pth"))
        if not self.alone:
            torch.distributed.broadcast_object_list(box, src=0)
        self.resumed = box[0]
        self._restore()
        return self

    def __exit__(self, *_: object) -> None:
        if self.file is not None:
            self.file.release()

    @property
    def finished(self) -> bool:
        """Whether the run that was found needs no more training."""
        return self.resumed is not None and self.resumed["finished"]

    def _restore(self) -> None:
        state, trainer = self.resumed, self.trainer
        if state is None:
            return
        for name in _REMEMBERED:
            setattr(trainer, name, state[name])
        trainer.start_epoch = state["epoch"]
        if self.finished:
            trainer.logger.info(f"This run is finished; its weights are in {trainer.saved_model_file}")
            return
        checkpoint.load_into(trainer.model, state, trainer.saved_model_file)
        trainer.optimizer.load_state_dict(state["optimizer"])
        load_ema_state(trainer, state)
        trainer.logger.info(f"Resuming at epoch {trainer.start_epoch} of {trainer.saved_model_file}")

    def epoch_begins(self, epoch: int) -> None:
        """Save what this epoch starts from; where the run was resumed, restore the generators."""
        if self.resumed is not None and epoch == self.resumed["epoch"]:
            rank = 0 if self.alone else torch.distributed.get_rank()
            restore_random_state(self.resumed["random"][rank], self.loaders)
            sampler = self.loaders[0].sampler
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)
            return
        check_weights(self.trainer.model, f"at the start of epoch {epoch}")
        mine = random_state(self.loaders)
        states = [mine]
        if not self.alone:
            states = [None] * torch.distributed.get_world_size()  # type: ignore[list-item]
            torch.distributed.all_gather_object(states, mine)
        self._save(
            epoch=epoch,
            random=states,
            state_dict=self.trainer.model.state_dict(),
            other_parameter=self.trainer.model.other_parameter(),
            optimizer=self.trainer.optimizer.state_dict(),
            ema=ema_state(self.trainer),
        )

    def finish(self) -> None:
        """Remember the outcome alone: the weights are in the checkpoint."""
        self._save(epoch=self.trainer.epochs, finished=True, state_dict={})
        if self.file is not None:
            self.file.before.unlink(missing_ok=True)

    def _save(self, finished: bool = False, **state: Any) -> None:
        if self.file is None:
            return
        remembered = {name: getattr(self.trainer, name) for name in _REMEMBERED}
        self.file.save(
            {
                "recbole_asarrec": __version__,
                "config": self.trainer.config.final_config_dict,
                "fingerprint": self.fingerprint,
                "finished": finished,
                **remembered,
                **state,
            }
        )


def _new_run(weights: Path) -> RunFile:
    """A file of its own beside ``weights``: RecBole names runs by the second, and two may share one."""
    for number in range(1, 1000):
        stem = weights.stem if number == 1 else f"{weights.stem}-{number}"
        file = RunFile(weights.with_name(stem + SUFFIX))
        if file.claim():
            if not file.path.exists() and not file.path.with_suffix(".pth").exists():
                return file
            file.release()
    raise CheckpointError(
        f"'{weights.parent}' holds a thousand runs of this second; use another checkpoint_dir."
    )


@contextmanager
def _watched(trainer: Any, epoch_begins: Callable[[int], None]) -> Iterator[None]:
    """Note each epoch's time, losses and validation in ``trainer.curve``."""
    train_epoch, valid_epoch = trainer._train_epoch, trainer._valid_epoch

    def watched_train_epoch(train_data: Any, epoch_idx: int, *args: Any, **kwargs: Any) -> Any:
        epoch_begins(epoch_idx)
        began = perf_counter()
        losses = train_epoch(train_data, epoch_idx, *args, **kwargs)
        parts = [float(loss) for loss in (losses if isinstance(losses, tuple) else (losses,))]
        trainer.curve.append({"epoch": epoch_idx, "seconds": perf_counter() - began, "losses": parts})
        return losses

    def watched_valid_epoch(*args: Any, **kwargs: Any) -> Any:
        score, result = valid_epoch(*args, **kwargs)
        trainer.curve[-1]["valid"] = dict(result)
        return score, result

    trainer._train_epoch, trainer._valid_epoch = watched_train_epoch, watched_valid_epoch
    try:
        yield
    finally:
        del trainer._train_epoch, trainer._valid_epoch


@hook(
    "self train_data valid_data verbose saved show_progress callback_fn",
    "recbole.trainer.trainer:Trainer.fit",
)
def _fit(original: Callable) -> Callable:
    """Feature: every epoch's start is saved, so that a killed run resumes to the bit."""

    @functools.wraps(original)
    def fit(
        self: Any,
        train_data: Any,
        valid_data: Any = None,
        verbose: bool = True,
        saved: bool = True,
        show_progress: bool = False,
        callback_fn: Any = None,
    ) -> Any:
        dataset = train_data._dataset
        tokens = dataset.field2id_token.get(dataset.iid_field)
        self.item_tokens = None if tokens is None else [str(token) for token in tokens]
        self.curve = []
        rest = (train_data, valid_data, verbose, saved, show_progress, callback_fn)
        if not saved:
            warm_start(self, dataset)
            with _watched(self, lambda epoch: None):
                return original(self, *rest)
        with (
            _ResumeState(self, train_data, valid_data) as state,
            _watched(self, state.epoch_begins),
        ):
            if state.finished:
                return self.best_valid_score, self.best_valid_result
            if state.resumed is None:
                warm_start(self, dataset)
            result = original(self, *rest)
            state.finish()
            return result

    return fit
