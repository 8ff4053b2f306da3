"""How RecBole's ``Config`` comes to know the plugin's keys, defaults and devices."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
import yaml

from recbole_asarrec.compat.checks import is_ours, strict_for_ours
from recbole_asarrec.compat.patching import hook
from recbole_asarrec.config.package_settings import PackageSettings
from recbole_asarrec.config.recbole_keys import check_recbole_keys
from recbole_asarrec.config.resolve import RULES as AUTO_KEYS
from recbole_asarrec.config.rules import check_value, one_of
from recbole_asarrec.config.settings import RECIPES
from recbole_asarrec.config.yaml_file import read_yaml
from recbole_asarrec.data.checks import check_name
from recbole_asarrec.errors import CheckpointError, ConfigError, nearest

_PROCESS_KEYS = {"local_rank", "world_size", "nproc", "ip", "port", "offset", "group_offset", "single_spec"}
_ONE_NEGATIVE = {"distribution": "uniform", "sample_num": 1}
_OWN_KEYS = {"model", "dataset", "config_files", "config_file", "encoding", "numerical_features"}
_TRUST_KEYS = [name for name in PackageSettings.names() if name.startswith("trust_")]


def properties_folder() -> Path:
    """Where the plugin's YAML lies: inside an installed package, beside it in a source tree."""
    package = Path(__file__).parent.parent
    inside = package / "properties"
    return inside if inside.is_dir() else package.parent / "properties"


def read_properties(*parts: str) -> dict[str, Any]:
    """One of the plugin's YAML files as a dict; empty where there is none."""
    file = properties_folder().joinpath(*parts)
    return yaml.safe_load(file.read_text(encoding="utf-8")) or {} if file.is_file() else {}


@hook("self file_list", "recbole.config.configurator:Config._load_config_files")
def _files(original: Callable) -> Callable:
    """Security: RecBole's YAML loader constructs Python objects and follows aliases without end."""

    @functools.wraps(original)
    def load_config_files(self: Any, file_list: list[str] | None) -> dict[str, Any]:
        # RecBole's loader makes Python objects and follows aliases without end
        return {key: value for file in file_list or [] for key, value in read_yaml(file).items()}

    return load_config_files


@hook("self config_dict", "recbole.config.configurator:Config._convert_config_dict")
def _convert(original: Callable) -> Callable:
    """Security: RecBole evaluates configuration text as Python code."""

    @functools.wraps(original)
    def convert_config_dict(self: Any, config_dict: dict[str, Any]) -> dict[str, Any]:
        for key, value in config_dict.items():
            if isinstance(value, str):
                config_dict[key] = plain_value(value)
        return config_dict

    return convert_config_dict


def plain_value(text: str) -> Any:
    """What a literal written as text means, else the text itself; RecBole runs it as code."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
    return value if value is None or isinstance(value, (str, int, float, list, tuple, dict)) else text


@hook(
    "self",
    "recbole.config.configurator:Config._set_default_parameters",
    "recbole.config.configurator:Config._set_train_neg_sample_args",
)
def _default_parameters(original: Callable) -> Callable:
    """Messages: a wrong evaluation setting raises a bare ValueError deep inside."""

    @functools.wraps(original)
    def check(self: Any) -> None:
        from recbole.utils import InputType

        try:
            original(self)
            if self.final_config_dict.get("loss_type") == "BCE":  # unknown to RecBole
                self.final_config_dict["MODEL_INPUT_TYPE"] = InputType.POINTWISE
        except (ValueError, TypeError, KeyError, NotImplementedError, RuntimeError) as error:
            raise ConfigError(f"RecBole refuses the configuration: {str(error).rstrip('.')}.") from error

    return check


@hook("self model model_class dataset", "recbole.config.configurator:Config._load_internal_config_dict")
def _defaults(original: Callable) -> Callable:
    """Registration: the plugin's keys, defaults and recipes, checked before any data is read."""

    @functools.wraps(original)
    def load(self: Any, model: str, model_class: type, dataset: str) -> None:
        with strict_for_ours(model_class):
            check_name(str(dataset))
        augmented = hasattr(model_class, "backbone")
        backbone = model_class.backbone.__name__ if augmented else model  # type: ignore[attr-defined]
        original(self, backbone, model_class, dataset)
        internal, external = self.internal_config_dict, self.external_config_dict
        internal.update(read_properties("overall.yaml"))
        internal.update(read_properties("model", f"{backbone}.yaml"))
        if augmented:
            internal.update(read_properties("model", "Asar.yaml"))
            recipe = external.get("recipe", internal["recipe"])
            check_value("recipe", recipe, one_of(*RECIPES))
            internal.update(read_properties("recipe", f"{recipe}.yaml"))
            for one in reversed(model_class.__mro__):  # a subclass has its parents' defaults
                if hasattr(one, "backbone"):
                    internal.update(read_properties("model", f"{one.__name__}.yaml"))
        internal.update(read_properties("dataset", f"{dataset}.yaml"))
        merged = {**internal, **external}
        with strict_for_ours(model_class):
            check_recbole_keys(merged, AUTO_KEYS if augmented else ())
        if is_ours(model_class):
            losses = ("CE", "BPR", "BCE") if augmented else ("CE", "BPR")
            check_value("loss_type", merged.get("loss_type", "CE"), one_of(*losses))
            pairwise = merged.get("loss_type") == "BPR"
            internal["train_neg_sample_args"] = _ONE_NEGATIVE.copy() if pairwise else None
        if model_class.type.name == "SEQUENTIAL":  # type: ignore[attr-defined]
            internal["load_col"] = _columns(merged)
        if augmented:
            _check_known(self, external, internal)
            model_class.settings_class.read(merged)  # type: ignore[attr-defined]
            if merged["training"] == "auto":
                external.pop("training", None)
                internal["training"] = merged["training"] = model_class.best_training(merged)  # type: ignore[attr-defined]
            model_class.check_conflicts(merged)  # type: ignore[attr-defined]
        package = PackageSettings.read(merged)
        if merged.get("benchmark_filename") is not None:
            package.check_benchmark_files()
        if package.detect_anomaly:
            torch.autograd.set_detect_anomaly(True)

    return load


def _columns(config: dict[str, Any]) -> dict[str, Any] | None:
    """RecBole loads users and items alone unless told otherwise; a sequence needs its time too."""
    load = config["load_col"]
    if load is None or load.get("inter", "*") == "*":
        return load
    needed = [config[key] for key in ("USER_ID_FIELD", "ITEM_ID_FIELD", "TIME_FIELD")]
    return {**load, "inter": [*load["inter"], *(field for field in needed if field not in load["inter"])]}


def _check_known(config: Any, external: dict[str, Any], internal: dict[str, Any]) -> None:
    known = {key for keys in config.parameters.values() for key in keys}
    known |= internal.keys() | _PROCESS_KEYS | _OWN_KEYS
    for key, value in external.items():
        if key not in known:
            raise ConfigError(
                f"There is no configuration key '{key}' (given the value {value!r}){nearest(key, known)}."
            )


@hook("self", "recbole.config.configurator:Config.compatibility_settings")
def _compatibility(original: Callable) -> Callable:
    """Compatibility: it would remove names that current numpy still has."""

    def compatibility_settings(self: Any) -> None:
        """Done once by :func:`~recbole_asarrec.compat.packages.numpy_aliases`, hiding none of its names."""

    return functools.wraps(original)(compatibility_settings)


@hook("self", "recbole.config.configurator:Config._init_device")
def _device(original: Callable) -> Callable:
    """Compatibility: several processes without a GPU (gloo) and without CUDA calls."""

    @functools.wraps(original)
    def init_device(self: Any) -> None:
        final = self.final_config_dict
        if "local_rank" not in final or torch.cuda.is_available():
            original(self)
            return
        torch.distributed.init_process_group(
            backend="gloo",
            rank=final["local_rank"] + final["offset"],
            world_size=final["world_size"],
            init_method=f"tcp://{final['ip']}:{final['port']}",
        )
        final.update(device=torch.device("cpu"), single_spec=False, gpu_id="")
        if final["local_rank"] != 0:
            final.update(state="error", show_progress=False, verbose=False)

    return init_device


def restore_config(stored: dict[str, Any], trust: Mapping[str, bool] = MappingProxyType({})) -> Any:
    """Rebuild a RecBole ``Config`` from the plain data of a checkpoint, for one process on this machine.

    Args:
        stored: what the checkpoint holds.
        trust: words of trust by key. Those that the checkpoint gives itself do not count.

    Raises:
        CheckpointError: something is missing there, or is none of what it should be.
    """
    from recbole.config import Config
    from recbole.utils import EvaluatorType, InputType, ModelType, get_model

    config = Config.__new__(Config)
    config._init_parameters_category()
    config.yaml_loader = config._build_yaml_loader()
    config.external_config_dict = {}
    config.final_config_dict = {key: value for key, value in stored.items() if key not in _PROCESS_KEYS}
    config.final_config_dict.update({key: trust.get(key, False) for key in _TRUST_KEYS})
    config.final_config_dict["warm_start"] = None  # the checkpoint has its own weights
    try:
        config.model, config.dataset = stored["model"], stored["dataset"]
        config.model_class = get_model(config.model)
        for key, enum in {
            "MODEL_TYPE": ModelType,
            "MODEL_INPUT_TYPE": InputType,
            "eval_type": EvaluatorType,
        }.items():
            config.final_config_dict[key] = enum[stored[key]]
        with strict_for_ours(config.model_class):
            check_recbole_keys(config.final_config_dict)
        config._init_device()
    except KeyError as error:
        raise CheckpointError(f"The checkpoint's configuration has no fitting {error}.") from error
    except (ConfigError, AttributeError, TypeError) as error:
        raise CheckpointError(f"The checkpoint's configuration does not fit: {error}") from error
    return config
