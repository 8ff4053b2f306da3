"""What RecBole's own keys must be, said before RecBole trips over them or passes over them in silence."""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Mapping
from typing import Any

from recbole_asarrec.config.rules import Rule, boolean, check_value, either, integer, number, one_of, text
from recbole_asarrec.errors import ConfigError


def _a(kind: type, meaning: str) -> Rule:
    return Rule(meaning, lambda value: isinstance(value, kind))


def _list_of(rule: Rule, meaning: str) -> Rule:
    return Rule(
        meaning,
        lambda value: (
            rule.holds(value)
            or (isinstance(value, (list, tuple)) and len(value) > 0 and all(map(rule.holds, value)))
        ),
    )


def _columns(example: str) -> Rule:
    return Rule(
        f"a mapping of lists such as {example}",
        lambda value: (
            isinstance(value, dict)
            and all(part in ("*", None) or isinstance(part, (list, tuple)) for part in value.values())
        ),
    )


def _known_encoding(value: Any) -> bool:
    try:
        return isinstance(value, str) and codecs.lookup(value) is not None
    except (LookupError, ValueError):
        return False


_SPACE = r"\s*"
_POINT = rf"{_SPACE}[-+]?(?:\d+(?:\.\d*)?|\.\d+|inf){_SPACE}"
_INTERVAL = rf"{_SPACE}[\[(]{_POINT},{_POINT}[\])]{_SPACE}"
_INTERVALS = re.compile(rf"{_INTERVAL}(?:;{_INTERVAL})*")
_intervals = Rule(
    "intervals such as '[5,inf)'",
    # RecBole makes a list of '[4,8]' and a text of that again
    lambda value: isinstance(value, (str, list)) and bool(_INTERVALS.fullmatch(str(value))),
)
_mode = Rule(
    "full, labeled, uni100 or pop100",
    lambda value: (
        isinstance(value, str) and re.fullmatch(r"full|labeled|(uni|pop)[1-9]\d*", value) is not None
    ),
)
_SPLIT = {
    "LS": one_of("valid_and_test", "valid_only", "test_only"),
    "RS": Rule("a list of three numbers", lambda value: _are_shares(value)),
    "TS": Rule("a list of three numbers", lambda value: _are_shares(value)),
}


def _are_shares(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 3 and all(map(number(0).holds, value))


_LEARNERS = ("adam", "adamw", "sgd", "adagrad", "rmsprop", "sparse_adam")
_WITHOUT_K = ("auc", "gauc", "mae", "rmse", "logloss")
_count = integer(1)
_rate = number(0, 1, open_high=True)
RULES: Mapping[str, Rule] = {
    "epochs": integer(0),
    "train_batch_size": _count,
    "eval_batch_size": _count,
    "learning_rate": number(0, open_low=True),
    "weight_decay": number(0),
    "learner": Rule(
        f"one of {', '.join(_LEARNERS)}", lambda value: isinstance(value, str) and value.lower() in _LEARNERS
    ),
    "eval_step": integer(0),
    "stopping_step": integer(0),
    "clip_grad_norm": either(None, _a(dict, "a mapping such as {max_norm: 5}")),
    "seed": Rule("a whole number from 0 to 4294967295", lambda v: integer(0).holds(v) and v < 2**32),
    "worker": integer(0),
    "MAX_ITEM_LIST_LENGTH": _count,
    "hidden_size": _count,
    "inner_size": _count,
    "embedding_size": _count,
    "n_layers": _count,
    "n_heads": _count,
    "num_layers": _count,
    "hidden_dropout_prob": _rate,
    "attn_dropout_prob": _rate,
    "dropout_prob": _rate,
    "layer_norm_eps": number(0, open_low=True),
    "initializer_range": number(0),
    "topk": _list_of(_count, "a whole number or a list of these, at least 1"),
    "metrics": _list_of(text(), "a metric's name or a list of these"),
    "valid_metric": text("a metric and its k such as NDCG@10"),
    "eval_args": _a(dict, "a mapping with split, order, group_by and mode"),
    "train_neg_sample_args": Rule(
        "~ or a mapping with distribution and sample_num",
        lambda value: value in (None, "None") or isinstance(value, dict),
    ),
    "user_inter_num_interval": either(None, _intervals),
    "item_inter_num_interval": either(None, _intervals),
    "val_interval": either(None, _a(dict, "a mapping of fields to intervals")),
    "load_col": either(None, _columns("{inter: [user_id, item_id, timestamp]}")),
    "unload_col": either(None, _columns("{inter: [rating]}")),
    "USER_ID_FIELD": text("a column's name"),
    "ITEM_ID_FIELD": text("a column's name"),
    "TIME_FIELD": text("a column's name"),
    "field_separator": text("a separator such as '\\t'"),
    "encoding": either(None, Rule("an encoding that Python knows, such as utf-8", _known_encoding)),
    "data_path": text("a folder"),
    "checkpoint_dir": text("a folder"),
    "dataset_save_path": either(None, text("a file")),
    "dataloaders_save_path": either(None, text("a file")),
    "show_progress": boolean(),
    "reproducibility": boolean(),
    "use_gpu": boolean(),
    "save_dataset": boolean(),
    "save_dataloaders": boolean(),
    "log_wandb": boolean(),
    "shuffle": boolean(),
    "enable_amp": boolean(),
    "enable_scaler": boolean(),
}


def check_recbole_keys(config: Mapping[str, Any], may_be_auto: Collection[str] = ()) -> None:
    """Check RecBole's keys, each by itself and then together.

    Args:
        config: all keys.
        may_be_auto: keys that may be the word ``auto`` as well.

    Raises:
        ConfigError: naming the key, its value and what it should be.
    """
    for key, rule in RULES.items():
        if key in config:
            check_value(key, config[key], either("auto", rule) if key in may_be_auto else rule)
    _check_protocol(config["eval_args"])
    for field, interval in (config.get("val_interval") or {}).items():
        check_value(f"val_interval: {field}", interval, _intervals)
    size, heads = config.get("hidden_size"), config.get("n_heads")
    if size is not None and heads is not None and size % heads:
        raise ConfigError(f"The key 'hidden_size' must be a multiple of n_heads ({heads}), but is {size}.")
    _check_metrics(config)


def _check_protocol(protocol: Mapping[str, Any]) -> None:
    split = protocol.get("split", {"RS": [8, 1, 1]})
    check_value("eval_args: split", split, _a(dict, "a mapping such as {LS: valid_and_test}"))
    if len(split) != 1 or not split.keys() <= _SPLIT.keys():
        raise ConfigError(f"The key 'eval_args: split' must have one of {', '.join(_SPLIT)}, but is {split}.")
    for kind, value in split.items():
        check_value(f"eval_args: split: {kind}", value, _SPLIT[kind])
    check_value("eval_args: order", protocol.get("order", "TO"), one_of("RO", "TO"))
    check_value("eval_args: group_by", protocol.get("group_by"), either(None, one_of("user", "none")))
    mode = protocol.get("mode", "full")
    for phase in mode.values() if isinstance(mode, dict) else [mode]:
        check_value("eval_args: mode", phase, _mode)


def _check_metrics(config: Mapping[str, Any]) -> None:
    """RecBole looks up ``valid_metric`` after the first epoch; it must be among what is measured."""
    metrics, topk = config["metrics"], config["topk"]
    metrics = [metrics] if isinstance(metrics, str) else metrics
    topk = [topk] if isinstance(topk, int) else topk
    name, at, k = config["valid_metric"].partition("@")
    fits = k in [str(n) for n in topk] if at else name.lower() in _WITHOUT_K
    if not fits or name.lower() not in [metric.lower() for metric in metrics]:
        raise ConfigError(
            f"The key 'valid_metric' is {config['valid_metric']}, which is not measured: metrics is "
            f"{list(metrics)} and topk is {list(topk)}."
        )
