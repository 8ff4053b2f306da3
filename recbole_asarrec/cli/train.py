"""``run_recbole.py`` and ``recbole-asarrec train``: train and test one model.

The steps are those of RecBole's quick start. The console shows one line of versions, one of settings, one an
epoch and a table; everything RecBole says (its configuration, the model, its losses) is in the log file.
"""

from __future__ import annotations

import argparse
import inspect
import logging
import sys
from time import perf_counter
from typing import Any

import torch
from recbole.config import Config
from recbole.data import create_dataset
from recbole.data.transform import construct_transform
from recbole.utils import (
    get_environment,
    get_flops,
    init_logger,
    init_seed,
    set_color,
)

from recbole_asarrec.cli import summary
from recbole_asarrec.errors import ConfigError
from recbole_asarrec.exit_codes import run_command
from recbole_asarrec.kernels.malloc import keep_freed_memory
from recbole_asarrec.shell import python_name, typed
from recbole_asarrec.training.set_up import set_up
from recbole_asarrec.training.warm_start import read_source, warm_start


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command; every other ``--key=value`` is a configuration key."""
    parser.epilog = "Any other --key=value sets a configuration key of RecBole or of this package."
    parser.add_argument("--model", "-m", default="AsarSASRec", help="model (default: AsarSASRec)")
    parser.add_argument("--dataset", "-d", default="ml-100k", help="dataset (default: ml-100k)")
    parser.add_argument("--config_files", help="YAML files, separated by spaces")
    parser.add_argument("--yes", action="store_true", help="download without asking, as --download=yes")
    parser.add_argument(
        "--from",
        dest="warm_start",
        metavar="CHECKPOINT",
        help="start from a checkpoint of this model on data that has changed since, as --warm_start",
    )
    parser.add_argument(
        "--resume", nargs="?", const="True", choices=("True", "False"), help="resume this run"
    )
    parser.add_argument("--nproc", type=int, default=1, help="processes on this machine (default: 1)")
    parser.add_argument("--ip", default="localhost", help="address of the first machine")
    parser.add_argument("--port", type=int, default=5678, help="port of the first machine (default: 5678)")
    parser.add_argument(
        "--world_size", type=int, default=-1, help="processes on all machines (default: nproc)"
    )
    parser.add_argument("--group_offset", type=int, default=0, help="rank of this machine's first process")


def run(arguments: argparse.Namespace) -> None:
    """The command.

    Args:
        arguments: what :func:`add_arguments` defines, and ``keys``, the other words of the command line.
    """
    check_keys(arguments.keys)
    if arguments.nproc < 1:
        raise ConfigError(f"The argument --nproc must be at least 1, but is {arguments.nproc}.")
    keep_freed_memory()
    sys.argv = [sys.argv[0], *arguments.keys]  # RecBole reads its keys from there
    config: dict[str, Any] = {"download": "yes"} if arguments.yes else {}
    if arguments.resume:
        config["resume"] = arguments.resume == "True"
    if arguments.warm_start is not None:
        config["warm_start"] = arguments.warm_start
    files = arguments.config_files.split() if arguments.config_files else None
    job = (arguments.model, arguments.dataset, files, config)
    if arguments.nproc == 1 and arguments.world_size <= 0:
        train(*job)
        return
    config.update(
        world_size=arguments.nproc if arguments.world_size <= 0 else arguments.world_size,
        nproc=arguments.nproc,
        ip=arguments.ip,
        port=str(arguments.port),
        offset=arguments.group_offset,
    )
    torch.multiprocessing.spawn(_work, args=(sys.argv, job), nprocs=arguments.nproc)


def how_to_resume() -> str:
    """What to type after a run was stopped."""
    words = [word for word in sys.orig_argv[1:] if not word.startswith("--resume")]
    return f"Finished epochs are saved. Resume with: {typed([python_name(), *words, '--resume'])}"


def check_keys(words: list[str]) -> None:
    """RecBole skips what it cannot read; a key without effect is worse than an error.

    Raises:
        ConfigError: naming the first word that is no ``--key=value``, or a key given twice.
    """
    names = [word.partition("=")[0] for word in words]
    for word, name in zip(words, names):
        if names.count(name) > 1:
            raise ConfigError(f"The argument '{name}' is given more than once.")
        if not word.startswith("--") or word.count("=") != 1 or word.endswith("="):
            raise ConfigError(f"The argument '{word}' must be written as --key=value.")


def _work(rank: int, argv: list[str], job: tuple[str, str, list[str] | None, dict[str, Any]]) -> None:
    """One of several processes; it reports its own failure, and the parent passes on the exit code."""
    sys.argv = argv
    keep_freed_memory()
    model, dataset, files, config = job
    if code := run_command(lambda: train(model, dataset, files, {**config, "local_rank": rank})):
        sys.exit(code)


def train(
    model: str, dataset: str, config_files: list[str] | None = None, config_dict: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Train a model to its early stop, test its best weights once, and print what came out.

    Args:
        model: name of a model.
        dataset: name of a dataset.
        config_files: YAML files of configuration keys.
        config_dict: configuration keys.

    Returns:
        What RecBole's ``run_recbole`` returns: the best validation score, and the metrics of both parts.
    """
    began = perf_counter()
    config = Config(model, dataset, config_file_list=config_files, config_dict=config_dict)
    if "show_progress" not in config.external_config_dict and not sys.stderr.isatty():
        config["show_progress"] = False
    first = config["local_rank"] == 0
    init_seed(config["seed"], config["reproducibility"])
    init_logger(config)
    log_file = _quiet_console() if str(config["state"]).lower() == "info" else None
    logger = logging.getLogger()
    logger.info(sys.argv)
    logger.info(config)
    read_source(config)  # what is wrong with it is said before data is read
    data = create_dataset(config)
    logger.info(data)
    size = summary.size_of(data)  # before it is split in place
    run = set_up(config, data)
    trainer = run.trainer
    logger.info(run.model)
    flops = get_flops(run.model, data, config["device"], logger, construct_transform(config))
    logger.info(set_color("FLOPs", "blue") + f": {flops}")
    if first:
        print(summary.header(config, size, log_file), flush=True)
    if not config["resume"] and (started := warm_start(trainer, run.train._dataset)) and first:
        print(started, flush=True)
    lines = summary.EpochLines(trainer, config, len(run.train)) if first else None
    with_lines = {"callback_fn": lines} if lines and "callback_fn" in _parameters(trainer.fit) else {}
    score, valid = trainer.fit(run.train, run.valid, show_progress=config["show_progress"], **with_lines)
    test = trainer.evaluate(run.test, show_progress=config["show_progress"])
    logger.info(f"The running environment of this training is as follows:\n{get_environment(config).draw()}")
    logger.info(f"best valid: {valid}")
    logger.info(f"test result: {test}")
    if first:
        print(summary.outcome(trainer, config, data, valid, test, perf_counter() - began), flush=True)
    if not config["single_spec"]:
        torch.distributed.destroy_process_group()
    bigger = config["valid_metric_bigger"]
    return {
        "best_valid_score": score,
        "valid_score_bigger": bigger,
        "best_valid_result": valid,
        "test_result": test,
    }


def _parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def _quiet_console() -> str | None:
    """Leave warnings alone on the console; the path of the log file, which keeps everything."""
    path = None
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.FileHandler):
            path = handler.baseFilename
        elif isinstance(handler, logging.StreamHandler):
            handler.setLevel(logging.WARNING)
    return path
