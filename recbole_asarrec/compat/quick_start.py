"""RecBole's quick start: loading a saved model, and worker processes that know the plugin."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recbole_asarrec.compat.config import restore_config
from recbole_asarrec.compat.patching import hook, originals
from recbole_asarrec.errors import UserError
from recbole_asarrec.exit_codes import run_command
from recbole_asarrec.recipe.item_init import skip_item_init
from recbole_asarrec.training import checkpoint


@hook(
    "model_file",
    "recbole.quick_start.quick_start:load_data_and_model",
    "recbole.quick_start:load_data_and_model",
)
def _load_data_and_model(original: Callable) -> Callable:
    """Security: reads checkpoints that hold no code."""

    @functools.wraps(original)
    def load_data_and_model(
        model_file: Any, trust_checkpoint: bool = False, trust_cache: bool = False
    ) -> tuple[Any, ...]:
        from recbole.data import create_dataset, data_preparation
        from recbole.utils import init_logger, init_seed

        state = checkpoint.read(model_file, trust=trust_checkpoint)
        config = state["config"]
        if isinstance(config, dict):
            trust = {"trust_checkpoint": trust_checkpoint, "trust_cache": trust_cache}
            config = restore_config(config, trust)
        init_seed(config["seed"], config["reproducibility"])
        init_logger(config)
        dataset = create_dataset(config)
        train_data, valid_data, test_data = data_preparation(config, dataset)
        init_seed(config["seed"], config["reproducibility"])
        with skip_item_init():
            model = config.model_class(config, train_data._dataset).to(config["device"])
        checkpoint.load_into(model, state, model_file)
        return config, model, dataset, train_data, valid_data, test_data

    return load_data_and_model


@hook("rank args", "recbole.quick_start.quick_start:run_recboles", "recbole.quick_start:run_recboles")
def _run_recboles(original: Callable) -> Callable:
    """Compatibility: a spawned process must import the plugin first."""

    return run_worker


def run_worker(rank: int, *args: Any) -> None:
    """One process of ``run(…, nproc=…)``. Unpickling it by name imports this package in the new process.

    It says itself what went wrong; the process that started it learns the exit code.
    """
    code = run_command(lambda: originals["recbole.quick_start.quick_start:run_recboles"](rank, *args))
    if code:
        sys.exit(code)


@hook(
    "dir_path",
    "recbole.utils.utils:ensure_dir",
    "recbole.utils:ensure_dir",
    "recbole.utils.logger:ensure_dir",
    "recbole.trainer.trainer:ensure_dir",
    "recbole.data.utils:ensure_dir",
    "recbole.data.dataset.dataset:ensure_dir",
)
def _ensure_dir(original: Callable) -> Callable:
    """Bug: of two processes that make one folder one fails; a file of its name gives a traceback."""

    @functools.wraps(original)
    def ensure_dir(dir_path: str) -> None:
        # RecBole looks first and makes it then; of two processes, both may look before either makes it
        try:
            os.makedirs(dir_path, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            file = next(one for one in (Path(dir_path), *Path(dir_path).parents) if one.exists())
            raise UserError(
                f"The folder '{dir_path}' cannot be made, because '{file}' is a file; rename it, or start "
                "from another folder."
            ) from None

    return ensure_dir
