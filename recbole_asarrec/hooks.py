"""Every touch of RecBole's internals, and nothing else.

A hook names a function of RecBole, the parameters it is known to have, and what takes its place.
:func:`install` checks all of them before it changes any, so a RecBole release that moved one is refused by
name instead of failing somewhere inside. Importing :mod:`recbole_asarrec` installs them, once.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from pathlib import Path
from typing import Any, Callable

import torch
import yaml
from torch.nn.parallel import DistributedDataParallel

from recbole_asarrec import checkpoint, inputs, stack
from recbole_asarrec.errors import ConfigError, nearest
from recbole_asarrec.settings import PackageSettings
from recbole_asarrec.version import __version__

RECBOLE = "1.2.1"
_SINE = "recbole.model.sequential_recommender.sine"
_PROCESS_KEYS = {"local_rank", "world_size", "nproc", "ip", "port", "offset", "group_offset", "single_spec"}
_OWN_KEYS = {"model", "dataset", "config_files", "config_file", "encoding", "numerical_features"}

Hook = tuple[str, Callable[[Callable[..., Any]], Callable[..., Any]]]
hooks: dict[str, Hook] = {}  # "module:attribute" → (parameters, maker of the replacement)
originals: dict[str, Callable[..., Any]] = {}


class RecBoleChanged(ImportError):
    """The installed RecBole is not the one these hooks are made for."""


def _hook(parameters: str, *targets: str) -> Callable[[Callable], Callable]:
    def register(make: Callable[[Callable], Callable]) -> Callable:
        hooks.update({target: (parameters, make) for target in targets})
        return make

    return register


def _locate(target: str) -> tuple[Any, str]:
    module, _, path = target.partition(":")
    *owners, name = path.split(".")
    owner = functools.reduce(getattr, owners, importlib.import_module(module))
    return owner, name


def check() -> None:
    """Compare every hook with the installed RecBole.

    Raises:
        RecBoleChanged: naming the first hook that is gone or has other parameters.
    """
    for target, (parameters, _) in hooks.items():
        try:
            owner, name = _locate(target)
            found = " ".join(inspect.signature(originals.get(target) or vars(owner)[name]).parameters)
            problem = "" if found == parameters else f"takes ({found}), not ({parameters})"
        except (ImportError, AttributeError, KeyError):
            problem = "is gone"
        if problem:
            version = importlib.import_module("recbole").__version__
            raise RecBoleChanged(
                f"RecBole {version} does not fit recbole_asarrec {__version__}, which is made for {RECBOLE}: "
                f"{target} {problem}. Install it with: pip install recbole=={RECBOLE}"
            )


def install() -> None:
    """Import RecBole, check the hooks and put them in place; a second call does nothing."""
    if originals:
        return
    anomaly = torch.is_anomaly_enabled() and _SINE not in sys.modules
    stack.numpy_aliases()
    with stack.ray_for_recbole():
        importlib.import_module("recbole.quick_start")
        importlib.import_module("recbole.model.sequential_recommender")
    if torch.is_anomaly_enabled() and not anomaly:
        stack.mended.append("anomaly mode, which RecBole switches on for the whole process, is off")
    torch.autograd.set_detect_anomaly(anomaly)
    check()
    for target, (_, make) in hooks.items():
        owner, name = _locate(target)
        originals[target] = getattr(owner, name)
        setattr(owner, name, make(originals[target]))


def register_model(model_class: type, dataset_class: type, trainer_class: type) -> None:
    """Make a model findable by the names RecBole derives from its own."""
    name = model_class.__name__
    home = f"recbole.model.sequential_recommender.{name.lower()}"
    sys.modules[home] = importlib.import_module(model_class.__module__)
    setattr(importlib.import_module("recbole.model.sequential_recommender"), name, model_class)
    setattr(importlib.import_module("recbole.data.dataset"), f"{name}Dataset", dataset_class)
    setattr(importlib.import_module("recbole.trainer"), f"{name}Trainer", trainer_class)
    own_models[name.lower()] = name


# --- models ------------------------------------------------------------------------------------------

own_models: dict[str, str] = {}


def model_names() -> list[str]:
    """Every model there is, the plugin's first."""
    properties = Path(importlib.import_module("recbole").__file__ or "").parent / "properties" / "model"
    return [*own_models.values(), *sorted((file.stem for file in properties.glob("*.yaml")), key=str.lower)]


@_hook(
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


# --- configuration -----------------------------------------------------------------------------------


def properties_folder() -> Path:
    """Where the plugin's YAML lies: inside an installed package, beside it in a source tree."""
    package = Path(__file__).parent
    inside = package / "properties"
    return inside if inside.is_dir() else package.parent / "properties"


def read_properties(*parts: str) -> dict[str, Any]:
    """One of the plugin's YAML files as a dict; empty where there is none."""
    file = properties_folder().joinpath(*parts)
    return yaml.safe_load(file.read_text(encoding="utf-8")) or {} if file.is_file() else {}


@_hook("self model model_class dataset", "recbole.config.configurator:Config._load_internal_config_dict")
def _defaults(original: Callable) -> Callable:
    @functools.wraps(original)
    def load(self: Any, model: str, model_class: type, dataset: str) -> None:
        own = hasattr(model_class, "settings_class")
        original(self, model_class.backbone.__name__ if own else model, model_class, dataset)  # type: ignore[attr-defined]
        internal, external = self.internal_config_dict, self.external_config_dict
        internal.update(read_properties("overall.yaml"))
        if own:
            internal.update(read_properties("model", "Asar.yaml"))
            internal.update(read_properties("model", f"{model}.yaml"))
            if external.get("loss_type", internal.get("loss_type")) == "BPR":
                internal["train_neg_sample_args"] = {"distribution": "uniform", "sample_num": 1}
        internal.update(read_properties("dataset", f"{dataset}.yaml"))
        merged = {**internal, **external}
        if own:
            internal["load_col"] = _columns(merged)
            _refuse_unknown(self, external, internal)
            model_class.settings_class.read(merged)  # type: ignore[attr-defined]
        if PackageSettings.read(merged).detect_anomaly:
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


@_hook("self", "recbole.config.configurator:Config.compatibility_settings")
def _compatibility(original: Callable) -> Callable:
    def compatibility_settings(self: Any) -> None:
        """Done once by :func:`recbole_asarrec.stack.numpy_aliases`, without hiding numpy's own names."""

    return functools.wraps(original)(compatibility_settings)


@_hook("self", "recbole.config.configurator:Config._init_device")
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
    for key, enum in {"MODEL_TYPE": ModelType, "MODEL_INPUT_TYPE": InputType, "eval_type": EvaluatorType}.items():
        config.final_config_dict[key] = enum[stored[key]]
    config._init_device()
    return config


# --- training ----------------------------------------------------------------------------------------


@_hook("self config model", "recbole.trainer.trainer:AbstractTrainer.__init__")
def _trainer(original: Callable) -> Callable:
    @functools.wraps(original)
    def init(self: Any, config: Any, model: torch.nn.Module) -> None:
        if config["single_spec"] or config["device"].type != "cpu":
            original(self, config, model)
            return
        self.config, self.model = config, model
        self.distributed_model = DistributedDataParallel(model)

    return init


@_hook(
    "self train_data valid_data verbose saved show_progress callback_fn", "recbole.trainer.trainer:Trainer.fit"
)
def _fit(original: Callable) -> Callable:
    @functools.wraps(original)
    def fit(self: Any, train_data: Any, *args: Any, **kwargs: Any) -> Any:
        dataset = train_data._dataset
        tokens = dataset.field2id_token.get(dataset.iid_field)
        self.item_tokens = None if tokens is None else [str(token) for token in tokens]
        return original(self, train_data, *args, **kwargs)

    return fit


@_hook("self epoch verbose kwargs", "recbole.trainer.trainer:Trainer._save_checkpoint")
def _save(original: Callable) -> Callable:
    @functools.wraps(original)
    def save(self: Any, epoch: int, verbose: bool = True, **kwargs: Any) -> None:
        if not self.config["single_spec"] and self.config["local_rank"] != 0:
            return
        path = kwargs.pop("saved_model_file", self.saved_model_file)
        state = {
            "recbole_asarrec": __version__,
            "config": self.config.final_config_dict,
            "epoch": epoch,
            "cur_step": self.cur_step,
            "best_valid_score": self.best_valid_score,
            "state_dict": self.model.state_dict(),
            "other_parameter": self.model.other_parameter(),
            "optimizer": self.optimizer.state_dict(),
            "item_tokens": getattr(self, "item_tokens", None),
        }
        checkpoint.write(state, path)
        if verbose:
            self.logger.info(f"Saving current: {path}")

    return save


@_hook("self resume_file", "recbole.trainer.trainer:Trainer.resume_checkpoint")
def _resume(original: Callable) -> Callable:
    @functools.wraps(original)
    def resume(self: Any, resume_file: Any) -> None:
        state = checkpoint.read(resume_file, self.device, bool(self.config["trust_checkpoint"]))
        checkpoint.load_into(self.model, state, resume_file)
        self.optimizer.load_state_dict(state["optimizer"])
        self.saved_model_file = str(resume_file)
        self.start_epoch, self.cur_step = state["epoch"] + 1, state["cur_step"]
        self.best_valid_score = state["best_valid_score"]
        self.logger.info(f"Checkpoint loaded. Resume training from epoch {self.start_epoch}")

    return resume


@_hook(
    "self eval_data load_best_model model_file show_progress", "recbole.trainer.trainer:Trainer.evaluate"
)
def _evaluate(original: Callable) -> Callable:
    @functools.wraps(original)
    def evaluate(
        self: Any, eval_data: Any, load_best_model: bool = True, model_file: Any = None, show_progress: bool = False
    ) -> Any:
        if eval_data and load_best_model:
            path = model_file or self.saved_model_file
            state = checkpoint.read(path, self.device, bool(self.config["trust_checkpoint"]))
            checkpoint.load_into(self.model, state, path)
            self.logger.info(f"Loading model structure and parameters from {path}")
        return original(self, eval_data, load_best_model=False, show_progress=show_progress)

    return evaluate


# --- quick start -------------------------------------------------------------------------------------


@_hook(
    "model_file",
    "recbole.quick_start.quick_start:load_data_and_model",
    "recbole.quick_start:load_data_and_model",
)
def _load_data_and_model(original: Callable) -> Callable:
    @functools.wraps(original)
    def load_data_and_model(model_file: Any, trust_checkpoint: bool = False) -> tuple[Any, ...]:
        from recbole.data import create_dataset, data_preparation
        from recbole.utils import init_logger, init_seed

        state = checkpoint.read(model_file, trust=trust_checkpoint)
        config = state["config"]
        config = restore_config(config) if isinstance(config, dict) else config
        init_seed(config["seed"], config["reproducibility"])
        init_logger(config)
        dataset = create_dataset(config)
        train_data, valid_data, test_data = data_preparation(config, dataset)
        init_seed(config["seed"], config["reproducibility"])
        model = config.model_class(config, train_data._dataset).to(config["device"])
        checkpoint.load_into(model, state, model_file)
        return config, model, dataset, train_data, valid_data, test_data

    return load_data_and_model


@_hook("rank args", "recbole.quick_start.quick_start:run_recboles", "recbole.quick_start:run_recboles")
def _run_recboles(original: Callable) -> Callable:
    return run_worker


def run_worker(rank: int, *args: Any) -> None:
    """One process of ``run(…, nproc=…)``. Unpickling it by name imports this package in the new process."""
    originals["recbole.quick_start.quick_start:run_recboles"](rank, *args)


# --- atomic files ------------------------------------------------------------------------------------


@_hook("self token dataset_path", "recbole.data.dataset.dataset:Dataset._load_data")
def _load_data(original: Callable) -> Callable:
    @functools.wraps(original)
    def load_data(self: Any, token: str, dataset_path: str) -> None:
        if not Path(dataset_path).exists():
            inputs.refuse_unknown_dataset(token, dataset_path, self._get_download_url("url", allow_none=True))
            self._download()
        if self.benchmark_filename_list is None:
            inputs.check_inter_file(self.config, token, dataset_path)
        original(self, token, dataset_path)

    return load_data


@_hook("self", "recbole.data.dataset.dataset:Dataset._download")
def _download(original: Callable) -> Callable:
    @functools.wraps(original)
    def download(self: Any) -> None:
        # RecBole ends with a barrier that a single process has no group for
        if self.config["single_spec"] or self.config["local_rank"] == 0:
            inputs.download(self.dataset_name, self._get_download_url("url"), self.dataset_path)
        if not self.config["single_spec"]:
            torch.distributed.barrier()

    return download


@_hook("self", "recbole.data.dataset.dataset:Dataset._reset_index")
def _reset_index(original: Callable) -> Callable:
    @functools.wraps(original)
    def reset_index(self: Any) -> None:
        inputs.refuse_empty(self.inter_feat, self.dataset_name, self.config)
        original(self)

    return reset_index


@_hook("self", "recbole.data.dataset.sequential_dataset:SequentialDataset.build")
def _build(original: Callable) -> Callable:
    @functools.wraps(original)
    def build(self: Any) -> list[Any]:
        if self.benchmark_filename_list is not None:
            return original(self)
        inputs.refuse_short_histories(self.inter_feat[self.uid_field], self.dataset_name)
        datasets = original(self)
        inputs.refuse_empty_split(datasets, self.dataset_name, self.config)
        return datasets

    return build
