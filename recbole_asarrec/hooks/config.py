"""How RecBole's ``Config`` comes to know the plugin's keys, defaults and devices."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Callable

import torch
import yaml

from recbole_asarrec.errors import ConfigError, nearest
from recbole_asarrec.hooks.registry import hook
from recbole_asarrec.inputs import refuse_bad_name
from recbole_asarrec.settings import PackageSettings

_PROCESS_KEYS = {"local_rank", "world_size", "nproc", "ip", "port", "offset", "group_offset", "single_spec"}
_ONE_NEGATIVE = {"distribution": "uniform", "sample_num": 1}
_OWN_KEYS = {"model", "dataset", "config_files", "config_file", "encoding", "numerical_features"}


def properties_folder() -> Path:
    """Where the plugin's YAML lies: inside an installed package, beside it in a source tree."""
    package = Path(__file__).parent.parent
    inside = package / "properties"
    return inside if inside.is_dir() else package.parent / "properties"


def read_properties(*parts: str) -> dict[str, Any]:
    """One of the plugin's YAML files as a dict; empty where there is none."""
    file = properties_folder().joinpath(*parts)
    return yaml.safe_load(file.read_text(encoding="utf-8")) or {} if file.is_file() else {}


@hook("self model model_class dataset", "recbole.config.configurator:Config._load_internal_config_dict")
def _defaults(original: Callable) -> Callable:
    @functools.wraps(original)
    def load(self: Any, model: str, model_class: type, dataset: str) -> None:
        refuse_bad_name(str(dataset))
        ours, augmented = (
            model_class.__module__.startswith("recbole_asarrec"),
            hasattr(model_class, "backbone"),
        )
        backbone = model_class.backbone.__name__ if augmented else model  # type: ignore[attr-defined]
        original(self, backbone, model_class, dataset)
        internal, external = self.internal_config_dict, self.external_config_dict
        internal.update(read_properties("overall.yaml"))
        internal.update(read_properties("model", f"{backbone}.yaml"))
        if augmented:
            internal.update(read_properties("model", "Asar.yaml"))
        internal.update(read_properties("dataset", f"{dataset}.yaml"))
        merged = {**internal, **external}
        if ours:
            pairwise = merged.get("loss_type") == "BPR"
            internal["train_neg_sample_args"] = _ONE_NEGATIVE.copy() if pairwise else None
        if model_class.type.name == "SEQUENTIAL":  # type: ignore[attr-defined]
            internal["load_col"] = _columns(merged)
        if augmented:
            _refuse_unknown(self, external, internal)
            model_class.settings_class.read(merged)  # type: ignore[attr-defined]
            model_class.refuse_conflicts(merged)  # type: ignore[attr-defined]
        package = PackageSettings.read(merged)
        if merged.get("benchmark_filename") is not None:
            package.refuse_ready_rows()
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


def _refuse_unknown(config: Any, external: dict[str, Any], internal: dict[str, Any]) -> None:
    known = {key for keys in config.parameters.values() for key in keys}
    known |= internal.keys() | _PROCESS_KEYS | _OWN_KEYS
    for key, value in external.items():
        if key not in known:
            raise ConfigError(
                f"There is no configuration key '{key}' (given the value {value!r}){nearest(key, known)}."
            )


@hook("self", "recbole.config.configurator:Config.compatibility_settings")
def _compatibility(original: Callable) -> Callable:
    def compatibility_settings(self: Any) -> None:
        """Done once by :func:`recbole_asarrec.stack.numpy_aliases`, without hiding numpy's own names."""

    return functools.wraps(original)(compatibility_settings)


@hook("self", "recbole.config.configurator:Config._init_device")
def _device(original: Callable) -> Callable:
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


def restore_config(stored: dict[str, Any]) -> Any:
    """Rebuild a RecBole ``Config`` from the plain data of a checkpoint, for one process on this machine."""
    from recbole.config import Config
    from recbole.utils import EvaluatorType, InputType, ModelType, get_model

    config = Config.__new__(Config)
    config._init_parameters_category()
    config.yaml_loader = config._build_yaml_loader()
    config.model, config.dataset = stored["model"], stored["dataset"]
    config.model_class = get_model(config.model)
    config.external_config_dict = {}
    config.final_config_dict = {key: value for key, value in stored.items() if key not in _PROCESS_KEYS}
    for key, enum in {
        "MODEL_TYPE": ModelType,
        "MODEL_INPUT_TYPE": InputType,
        "eval_type": EvaluatorType,
    }.items():
        config.final_config_dict[key] = enum[stored[key]]
    config._init_device()
    return config
