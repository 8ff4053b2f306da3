"""How RecBole finds a model by its name."""

from __future__ import annotations

import functools
import importlib
import sys
from pathlib import Path
from typing import Callable

from recbole_asarrec.errors import ConfigError, nearest
from recbole_asarrec.hooks.registry import hook

own_models: dict[str, str] = {}


def register_model(model_class: type, dataset_class: type, trainer_class: type) -> None:
    """Make a model findable by the names RecBole derives from its own."""
    name = model_class.__name__
    home = f"recbole.model.sequential_recommender.{name.lower()}"
    sys.modules[home] = importlib.import_module(model_class.__module__)
    setattr(importlib.import_module("recbole.model.sequential_recommender"), name, model_class)
    setattr(importlib.import_module("recbole.data.dataset"), f"{name}Dataset", dataset_class)
    setattr(importlib.import_module("recbole.trainer"), f"{name}Trainer", trainer_class)
    own_models[name.lower()] = name


def model_names() -> list[str]:
    """Every model there is, the plugin's first."""
    properties = Path(importlib.import_module("recbole").__file__ or "").parent / "properties" / "model"
    return [*own_models.values(), *sorted((file.stem for file in properties.glob("*.yaml")), key=str.lower)]


@hook(
    "model_name",
    "recbole.utils.utils:get_model",
    "recbole.utils:get_model",
    "recbole.config.configurator:get_model",
    "recbole.quick_start.quick_start:get_model",
)
def _get_model(original: Callable) -> Callable:
    @functools.wraps(original)
    def get_model(model_name: str) -> type:
        try:
            return original(model_name)
        except (ValueError, AttributeError, ModuleNotFoundError) as error:
            if model_name in model_names():  # it exists, but a library it needs does not
                raise
            raise ConfigError(
                f"There is no model '{model_name}'{nearest(model_name, model_names())}; "
                f"there are {', '.join(model_names())}."
            ) from error

    return get_model
