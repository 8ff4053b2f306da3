"""How RecBole finds a model by its name."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from recbole_asarrec.compat.patching import hook
from recbole_asarrec.errors import ConfigError, nearest

own_models: list[str] = []
_SEQUENTIAL = "recbole.model.sequential_recommender"
_CLASS_OF_FILE = {"lightgbm": "LightGBM", "xgboost": "XGBoost"}  # whose files are not named as the models


def register_model(
    model_class: type, dataset_class: type | None = None, trainer_class: type | None = None
) -> None:
    """Make a model findable by the names RecBole derives from its own.

    Args:
        model_class: the model; RecBole will look for a module of its name in lower case.
        dataset_class: its dataset, RecBole's sequential one by default.
        trainer_class: its trainer, RecBole's by default.
    """
    name = model_class.__name__
    home = f"{_SEQUENTIAL}.{name.lower()}"
    module = ModuleType(home, model_class.__doc__)
    module.__spec__ = importlib.machinery.ModuleSpec(home, None)
    for place, attribute, value in (
        (module, name, model_class),
        (importlib.import_module(_SEQUENTIAL), name, model_class),
        (importlib.import_module("recbole.data.dataset"), f"{name}Dataset", dataset_class),
        (importlib.import_module("recbole.trainer"), f"{name}Trainer", trainer_class),
    ):
        if value is not None:
            setattr(place, attribute, value)
    sys.modules[home] = module
    if name not in own_models:
        own_models.append(name)


def model_names() -> list[str]:
    """Every model there is, the plugin's first."""
    properties = Path(importlib.import_module("recbole").__file__ or "").parent / "properties" / "model"
    stock = (_CLASS_OF_FILE.get(file.stem, file.stem) for file in properties.glob("*.yaml"))
    return [*own_models, *sorted(stock, key=str.lower)]


@hook(
    "model_name",
    "recbole.utils.utils:get_model",
    "recbole.utils:get_model",
    "recbole.config.configurator:get_model",
    "recbole.quick_start.quick_start:get_model",
)
def _get_model(original: Callable) -> Callable:
    """Registration: Asar before the name of any sequential model; unknown names get a suggestion."""

    @functools.wraps(original)
    def get_model(model_name: str) -> type:
        if model_name.startswith("Asar") and model_name not in own_models and model_name[4:] in model_names():
            _augment(original(model_name[4:]))
        try:
            return original(model_name)
        except (ValueError, AttributeError, ModuleNotFoundError) as error:
            if model_name in model_names():  # it exists, but a library it needs does not
                raise
            raise ConfigError(
                f"There is no model '{model_name}'{nearest(model_name, model_names())}; "
                f"there are {', '.join(model_names())}, and Asar before the name of a sequential one."
            ) from error

    return get_model


def _augment(backbone: type) -> None:
    from recbole_asarrec.data import AsarDataset
    from recbole_asarrec.models import asar
    from recbole_asarrec.training.trainer import AsarTrainer

    register_model(asar(backbone), AsarDataset, AsarTrainer)
