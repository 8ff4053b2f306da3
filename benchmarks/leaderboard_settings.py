"""What docs/results says beside its figures: configurations, what was searched, where the runs are from."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import yaml

from benchmarks.figures import read_figures
from benchmarks.leaderboard_tables import rows_of
from recbole_asarrec.compat import read_properties
from recbole_asarrec.experiments.records import Record, Spec
from recbole_asarrec.experiments.run import configure
from recbole_asarrec.experiments.tune import search_space
from recbole_asarrec.report.study import Method, Setting, backbone_of
from recbole_asarrec.training.checkpoint import to_plain

RECIPES = {
    "plain": "The backbone as RecBole trains it.",
    "robust": "Co-occurrence initialization, denoising, generalized cross-entropy, a history penalty and "
    "EMA.",
    "paper": "The paper's setting: binary cross-entropy with one negative, batches of users, noise in the "
    "histories as well.",
}
KINDS = {
    "replace": "{percent} of each user's items are replaced by random unseen ones",
    "insert": "random unseen items are inserted, {percent} of each user's items",
}
SCOPES = {
    "train": "in the training data only",
    "train_and_history": "in training and in the histories that are ranked from",
}
# what is said elsewhere on the page, or changes no result
_APART = {
    *("model", "dataset", "seed", "augmentation", "recipe", "noise_ratio"),
    *("gpu_id", "worker", "use_gpu", "state", "show_progress", "resume", "MODEL_INPUT_TYPE", "eval_type"),
}
_NOT_SEARCHED = {"eval_step", "augmentation", "recipe", "noise_ratio"}
Keys = Mapping[str, Any]


@cache
def defaults(model: str, recipe: str) -> Keys:
    """RecBole's and this package's configuration where a user says nothing but the model and the recipe."""
    keys = {"recipe": recipe} if model.startswith("Asar") else {}
    typed, sys.argv = sys.argv, sys.argv[:1]  # RecBole reads the command line, too
    try:
        config = configure(Spec(model, "any", 2020, keys), state="error")
    finally:
        sys.argv = typed
    return dict(to_plain(dict(config.final_config_dict)))


def keys_of(record: Record) -> dict[str, Any]:
    """What a run was configured with beside the defaults, complete enough to run it again.

    ``auto`` among the recorded keys was nobody's choice and is left out.
    """
    spec = record.spec
    usual = defaults(spec.model, spec.recipe)
    keys = {
        key: value
        for key, value in record.config.items()
        if key not in _APART and value != "auto" and key in usual and value != usual[key]
    }
    keys.update({key: value for key, value in spec.keys.items() if key not in _APART})
    return dict(sorted(json.loads(json.dumps(keys)).items()))


def shared_keys(records: Sequence[Record]) -> dict[str, Any]:
    """The part of :func:`keys_of` that all of these runs have."""
    first, *others = map(keys_of, records)
    return {
        key: value for key, value in first.items() if all(key in one and one[key] == value for one in others)
    }


def own_keys(record: Record, shared: Keys) -> dict[str, Any]:
    """The part of :func:`keys_of` that is not shared, the augmentation first."""
    augmentation = {key: record.spec.keys[key] for key in ("augmentation",) if key in record.spec.keys}
    return {**augmentation, **{key: value for key, value in keys_of(record).items() if key not in shared}}


def changed_recipe(records: Sequence[Record]) -> Iterator[str]:
    """A sentence if a recipe had other values when these runs were made than it has now."""
    found: dict[str, Any] = {}
    for record in records:
        now = read_properties("recipe", f"{record.spec.recipe}.yaml")
        keys = keys_of(record)
        told = {key for key, value in now.items() if value != "auto" and key not in record.spec.keys}
        found |= {key: keys[key] for key in now if key in keys and key in told}
    if found:
        said = ", ".join(f"`{key}: {_value(value)}`" for key, value in sorted(found.items()))
        yield f"Runs were recorded when it had other values: {said}."


def configuration(setting: Setting, method: Method, records: Sequence[Record], shared: Keys) -> str:
    """The recipe, the shared keys as YAML, and the command that runs one of them.

    Args:
        setting: where ``method`` was run.
        method: the example of the command.
        records: all runs that have the ``shared`` keys.
        shared: what :func:`shared_keys` says of them.
    """
    record = method.any_record
    text = yaml.safe_dump(shared, sort_keys=False, allow_unicode=True) if shared else "{}\n"
    selection = {"removed" if one.config.get("exclude_history") else "kept" for one in records}
    said = [RECIPES.get(setting.recipe, ""), *changed_recipe(records)]
    said.append(f"Validation ranks with the history {' or '.join(sorted(selection))}.")
    return "\n".join(
        [
            " ".join(filter(None, said)),
            "",
            "What all runs share beside the defaults of the [recipe](../guide.md#the-training-recipe) and of",
            "all [keys](../keys.md), saved as `shared.yaml`:",
            "",
            f"```yaml\n{text}```",
            "",
            f"One run, here {method.label}, {setting.level}, seed {record.spec.seed}:",
            "",
            f"```bash\n{command(record, shared)}\n```",
        ]
    )


def command(record: Record, shared: Keys) -> str:
    """What runs a cell again, with the shared keys in a file."""
    spec = record.spec
    keys: dict[str, Any] = {"recipe": spec.recipe} if spec.model.startswith("Asar") else {}
    keys.update(own_keys(record, shared))
    if spec.noise_ratio:
        keys["noise_ratio"] = spec.noise_ratio
    head = [f"--model={spec.model}", f"--dataset={spec.dataset}", "--data_path=…"]
    words = [*head, "--config_files=shared.yaml", *(f"--{key}={value}" for key, value in keys.items())]
    quoted = [word if word.endswith("…") else shlex.quote(word) for word in words]
    return " ".join(["python run_recbole.py", *quoted, f"--seed={spec.seed}"])


def noise(record: Record) -> str:
    """What was done to the data of a run; empty if nothing."""
    found = record.noise or {}
    if "kind" not in found:
        return ""
    kind = KINDS[found["kind"]].format(percent=f"{100 * found['ratio']:g} %")
    return f"{kind[:1].upper()}{kind[1:]}, {SCOPES[found['scope']]}."


def values(methods: Sequence[Method], trials: Sequence[Record], shared: Keys) -> str:
    """The values of each method, what was searched on validation data, and what that chose."""
    lines = [["method", "values", "range searched", "best trial on validation"]]
    for method in methods:
        record = method.any_record
        lines.append([method.label, _pairs(used(record, shared)), *searched(record, trials)])
    return rows_of(lines)


def used(record: Record, shared: Keys) -> dict[str, Any]:
    """The keys that a method searches (``properties/search.yaml``), and those it does not share."""
    keys = {key: record.config.get(key) for key in search_space(record.spec)}
    if "operation_ratio" in keys and keys["operation_ratio"] is None:  # which leaves it to the budget
        del keys["operation_ratio"]
        keys["perturbation_budget"] = record.config.get("perturbation_budget")
    own = own_keys(record, shared)
    first = {key: own[key] for key in ("augmentation",) if key in own}
    return {**first, **{key: value for key, value in keys.items() if value is not None}, **own}


def searched(record: Record, trials: Sequence[Record]) -> tuple[str, str]:
    """The values that trials of a method tried, and the best by the score that early stopping watches.

    Args:
        record: a run of the method.
        trials: runs that left the test data unread, of the same dataset.
    """

    def kind(one: Record) -> tuple[str, str, str]:
        return backbone_of(one.spec), one.spec.recipe, one.spec.augmentation

    alike = [one for one in trials if kind(one) == kind(record)]
    names = dict.fromkeys(key for one in alike for key in one.spec.keys if key not in _NOT_SEARCHED)
    tried = {key: {json.dumps(one.config.get(key)) for one in alike} for key in names}
    ranges = {
        key: sorted(map(json.loads, found), key=_rank) for key, found in tried.items() if len(found) > 1
    }
    if not ranges:
        return "not tuned", ""
    best = max(alike, key=lambda one: one.validation)
    chosen = {key: best.config[key] for key in ranges}
    here = all(record.config.get(key) == value for key, value in chosen.items())
    same = {key: best.config[key] for key in names if key not in ranges}
    other = {key: value for key, value in same.items() if record.config.get(key) != value}
    ratios = ", ".join(f"{100 * ratio:g} %" for ratio in sorted({one.spec.noise_ratio for one in alike}))
    under = ", ".join(filter(None, [f"{len(alike)} trials with {ratios} noise", _pairs(other)]))
    text = "; ".join(f"`{key}` {', '.join(map(_value, found))}" for key, found in ranges.items())
    score = f"{best.valid_metric.upper()} {best.validation:.4f}; {'used here' if here else 'not used here'}"
    return f"{text} ({under})", f"{_pairs(chosen)} ({score})"


def _rank(value: Any) -> tuple[bool, float, str]:
    """Numbers in their order, before anything else."""
    number = isinstance(value, (int, float))
    return not number, float(value) if number else 0.0, str(value)


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else str(value)


def _pairs(keys: Keys) -> str:
    return ", ".join(f"`{key}: {_value(value)}`" for key, value in keys.items())


@cache
def known_and_stale() -> tuple[frozenset[str], frozenset[str]]:
    """Runs that ``figures.yaml`` lists, and those of them whose code has changed since."""
    folders = [figure for figure in read_figures().values() if figure.path.is_dir()]
    known = frozenset(run for figure in folders for run in figure.commits())
    return known, frozenset(run for figure in folders for run in figure.stale())


def provenance(records: Sequence[Record], known: Collection[str], stale: Collection[str]) -> str:
    """Commits of the runs, and how many are older than their code."""
    counts: dict[str, int] = {}
    for record in records:
        commit = str(record.machine.get("commit"))
        counts[commit] = counts.get(commit, 0) + 1
    commits = ", ".join(f"`{commit}` ({count})" for commit, count in sorted(counts.items()))
    changed = " A `+` marks a tree with changes." if any(commit.endswith("+") for commit in counts) else ""
    unlisted = sum(record.spec.run not in known for record in records)
    rest = f", and {unlisted} are not listed in `benchmarks/figures.yaml`" if unlisted else ""
    old = sum(record.spec.run in stale for record in records)
    return (
        f"{len(records)} runs, by commit: {commits}.{changed}\n\n"
        f"When this page was written, {old} of the {len(records)} runs were older than the code they "
        f"depend on{rest} (`python -m benchmarks figures`)."
    )
