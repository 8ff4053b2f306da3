"""Which runs belong together: a method is what differs by nothing but the seed, a setting is one table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import yaml

from recbole_asarrec.compat import read_properties
from recbole_asarrec.config.package_settings import PackageSettings
from recbole_asarrec.config.settings import RECIPES, AsarSettings
from recbole_asarrec.experiments.records import Record, Spec
from recbole_asarrec.experiments.significance import Outcome

SWEPT = {"num_candidates": "k", "diversity_weight": "λ_div", "semantic_weight": "λ_NDCG"}
BASIC = ("crop", "mask", "reorder", "insert", "substitute")
NAMES = {
    **{name: name.capitalize() for name in BASIC},
    "coserec_insert": "CoSeRec (insert)",
    "coserec_substitute": "CoSeRec (substitute)",
    "cl4srec": "CL4SRec",
    "dropout": "DuoRec (dropout)",
    "s3rec": "S3Rec",
    "random_matrix": "Random matrix",
    "asar": "AsarRec",
}
_NOISE = "noise_"  # how the noise's keys begin
_FILTERS = (
    "user_inter_num_interval",
    "item_inter_num_interval",
    "val_interval",
)  # make other data of a dataset
LEARNED, CONTROL = "asar", "random_matrix"
_LAST = (CONTROL, LEARNED)


@dataclass(frozen=True, order=True)
class Setting:
    """What the rows of one table share.

    Attributes:
        dataset: name of the dataset, and what it was filtered by if not as its property file says.
        backbone: name of the backbone.
        recipe: how all of them were trained.
        noise_ratio: share of the training items that are noise.
        noise: the other noise keys, as text; empty for clean data.
    """

    dataset: str
    backbone: str
    recipe: str
    noise_ratio: float
    noise: str = ""

    @property
    def group(self) -> tuple[str, str, str]:
        """What settings that differ by their noise alone have in common."""
        return self.dataset, self.backbone, self.recipe

    @property
    def level(self) -> str:
        """``clean``, or how much noise of which kind."""
        if not self.noise_ratio:
            return "clean"
        return f"{100 * self.noise_ratio:g}% noise" + (f" ({self.noise})" if self.noise else "")

    @property
    def family(self) -> str:
        """The heading of settings that differ by the share of noise alone."""
        return " · ".join(filter(None, [*self.group[:2], f"{self.recipe} recipe", self.noise]))

    @property
    def title(self) -> str:
        """As a heading."""
        return f"{self.dataset} · {self.backbone} · {self.recipe} recipe · {self.level}"


@dataclass
class Method:
    """Runs that differ by their seed alone.

    Attributes:
        model: name of the model.
        augmentation: as the records write it.
        keys: the other keys of the specification, without noise.
        records: by seed.
        label: its name in tables and figures.
        validated: its validation score on the cleanest data that it was run on.
    """

    model: str
    augmentation: str
    keys: dict[str, Any]
    records: dict[int, Record] = field(default_factory=dict)
    label: str = ""
    validated: float = 0.0

    @property
    def any_record(self) -> Record:
        """The record of the lowest seed."""
        return self.records[min(self.records)]

    @property
    def stock(self) -> bool:
        """Whether this is the backbone's own model, without an augmenter."""
        return not self.model.startswith("Asar")

    def outcome(self, protocol: str) -> Outcome:
        """Ranks by the seeds that were tested under ``protocol``."""
        have = {seed: record for seed, record in self.records.items() if protocol in record.ranks}
        return Outcome(
            {seed: record.ranks[protocol] for seed, record in have.items()},
            {seed: record.users for seed, record in have.items()},
            {seed: (record.noise or {}).get("fingerprint") for seed, record in have.items()},
        )

    def validation(self) -> float:
        """The mean score over seeds."""
        return fmean(record.validation for record in self.records.values())

    def swept(self) -> tuple[Any, ...]:
        """The values of the swept keys, whether they were chosen or left to their default."""
        config = {**self.any_record.config, **self.keys}
        return tuple(config.get(name) for name in SWEPT)

    def yaml(self) -> str:
        """What RecBole needs to run this again."""
        spec = self.any_record.spec
        others = sorted(set(self.records) - {spec.seed})
        head = [
            f"# python run_recbole.py --model={spec.model} --dataset={spec.dataset} --config_files=this.yaml",
            f"seed: {spec.seed}" + (f"  # and {', '.join(map(str, others))}" if others else ""),
        ]
        keys = (
            yaml.safe_dump(json.loads(json.dumps(dict(spec.keys))), allow_unicode=True) if spec.keys else ""
        )
        return "\n".join(head) + "\n" + keys


def backbone_of(spec: Spec) -> str:
    """The model without its augmenter."""
    return spec.model.removeprefix("Asar")


def _setting(spec: Spec) -> Setting:
    details = [
        f"{name[len(_NOISE) :]} {value}"
        for name, value in sorted(spec.keys.items())
        if name.startswith(_NOISE) and name != "noise_ratio" and value != getattr(PackageSettings, name, None)
    ]
    usual = read_properties("dataset", f"{spec.dataset}.yaml")
    filters = [
        f"{key} {spec.keys[key]}" for key in _FILTERS if spec.keys.get(key, usual.get(key)) != usual.get(key)
    ]
    ratio = spec.noise_ratio
    dataset = ", ".join([spec.dataset, *filters])
    return Setting(dataset, backbone_of(spec), spec.recipe, ratio, ", ".join(details) if ratio else "")


def _name(method: Method, backbone: str) -> str:
    if method.augmentation == "none":
        return f"{backbone} (stock)" if method.stock else backbone
    words = method.augmentation.split(" + ")
    return " + ".join(NAMES.get(word, word) for word in words)


def _order(method: Method) -> tuple[int, int, int, float, str]:
    """As in the paper: the backbone, single operations, the methods of others, combinations, AsarRec.

    Of one method's variants the first stands for it: the one that sets the fewest keys of this package, and
    among those that differ by the backbone's own, as its dropout, the one that validation prefers.
    """
    name = method.augmentation
    known = list(NAMES)
    variant = (len(set(method.keys) & set(AsarSettings.names())), -method.validated, method.label)
    if name == "none":
        return (0, int(not method.stock), *variant)
    if name in _LAST:
        return (3, _LAST.index(name), *variant)
    return (1, known.index(name), *variant) if name in known else (2, 0, *variant)


def _distinguishing_keys(variants: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys to name variants by: every key of this package that differs, for it is another method then.

    Of the backbone's keys and RecBole's, in the order they were written, those that tell apart what the ones
    before do not: two dropouts, epochs and patience that change together are one difference.
    """
    texts = [{key: json.dumps(value) for key, value in keys.items()} for keys in variants]
    keys = list(dict.fromkeys(key for text in texts for key in text))
    own = {key for key in AsarSettings.names() if len({text.get(key) for text in texts}) > 1}
    telling = [key for key in keys if key in own]

    def kinds(names: Sequence[str]) -> int:
        return len({tuple(text.get(name) for name in names) for text in texts})

    for key in keys:
        if kinds([*telling, key]) > kinds(telling):
            telling.append(key)
    return telling


def _label(methods: Sequence[Method], backbone: str) -> None:
    """Name methods; where one name has several, by what they differ in."""
    by_name: dict[str, list[Method]] = {}
    for method in methods:
        by_name.setdefault(_name(method, backbone), []).append(method)
    for name, alike in by_name.items():
        telling = _distinguishing_keys([method.keys for method in alike])
        for method in alike:
            said = [f"{key} {method.keys[key]}" for key in telling if key in method.keys]
            plain = "defaults" if telling else ""
            suffix = ", ".join(said) or plain
            method.label = f"{name}, {suffix}" if suffix else name


def _assign_validation_scores(found: Mapping[Setting, Mapping[str, Method]]) -> None:
    """Give each method one score at every level of noise, so that the same variant stands for it at each."""
    cleanest: dict[tuple[tuple[str, str, str], str], float] = {}
    for setting in sorted(found):
        for identity, method in found[setting].items():
            whose = (setting.group, identity)
            method.validated = cleanest.setdefault(whose, method.validation())


def study(records: Iterable[Record]) -> dict[Setting, list[Method]]:
    """Group runs by setting and method, settings and methods in the order of the report."""
    found: dict[Setting, dict[str, Method]] = {}
    for record in records:
        spec = record.spec
        keys = {
            name: value
            for name, value in spec.keys.items()
            if not name.startswith(_NOISE) and name not in ("augmentation", "recipe")
        }
        identity = json.dumps([spec.model, spec.augmentation, keys], sort_keys=True)
        methods = found.setdefault(_setting(spec), {})
        method = methods.setdefault(identity, Method(spec.model, spec.augmentation, keys))
        method.records[spec.seed] = record
    _assign_validation_scores(found)
    every = {setting: list(found[setting].values()) for setting in sorted(found)}
    # a method has one name in all tables of a dataset, backbone and recipe, so that curves over them find it
    for group in {setting.group for setting in every}:
        alike = [methods for setting, methods in every.items() if setting.group == group]
        _label([method for methods in alike for method in methods], group[1])
        # among themselves, since they stand in the tables
        _label([method for methods in alike for method in sweep_centers(methods)], group[1])
    return {setting: sorted(methods, key=_order) for setting, methods in every.items()}


def _swept_differences(first: Method, second: Method) -> list[str] | None:
    """The swept keys two variants of one augmentation differ by; nothing if other keys differ too."""
    rest = [
        {name: value for name, value in method.keys.items() if name not in SWEPT}
        for method in (first, second)
    ]
    if (first.model, first.augmentation, rest[0]) != (second.model, second.augmentation, rest[1]):
        return None
    return [name for name, a, b in zip(SWEPT, first.swept(), second.swept()) if a != b]


def sweep_centers(methods: Sequence[Method]) -> list[Method]:
    """The methods without the arms of sweeps.

    The centre of a sweep is the variant that most others differ from by one swept key; among equals the one
    at the defaults, then the one with most seeds.
    """
    families: list[list[Method]] = []
    for method in methods:
        for family in families:
            if _swept_differences(method, family[0]) is not None:
                family.append(method)
                break
        else:
            families.append([method])
    defaults = tuple(getattr(AsarSettings, name) for name in SWEPT)

    def central(family: list[Method], one: Method) -> tuple[int, bool, int]:
        arms = sum(len(_swept_differences(one, other) or []) == 1 for other in family)
        return arms, one.swept() == defaults, len(one.records)

    return [max(family, key=lambda one: central(family, one)) for family in families]


def sweep(methods: Sequence[Method], key: str) -> list[tuple[float, Method]]:
    """AsarRec's runs that differ from their centre by ``key`` alone, and the centre, in the key's order."""
    learned = [method for method in methods if method.augmentation == LEARNED]
    place = list(SWEPT).index(key)
    longest: list[Method] = []
    for centre in sweep_centers(learned):
        arm = [centre] + [method for method in learned if _swept_differences(method, centre) == [key]]
        longest = max(longest, arm, key=len)
    values = [(float(method.swept()[place]), method) for method in longest if len(longest) > 1]
    return sorted(values, key=lambda pair: pair[0])


def is_basic(method: Method) -> bool:
    """Whether this is one of the five operations, or two of them."""
    words = method.augmentation.split(" + ")
    return len(words) <= 2 and set(words) <= set(BASIC)


def in_curves(methods: Sequence[Method]) -> list[Method]:
    """The methods a crowded figure shows: the tables' without pairs of operations, one variant of each."""
    plainest: dict[tuple[str, bool], Method] = {}
    for method in sweep_centers(methods):
        if not is_basic(method) or method.augmentation in BASIC:
            plainest.setdefault((method.augmentation, method.stock), method)
    return list(plainest.values())


def across_recipes(grouped: Mapping[Setting, Sequence[Method]]) -> dict[Setting, dict[str, Method]]:
    """Methods that were run under several recipes with all other keys equal, by recipe.

    The settings they are under name the method in place of a recipe. Of several variants of a method the one
    with most runs stands for it; stock models have one recipe and are left out.
    """
    variants: dict[Setting, dict[str, dict[str, Method]]] = {}
    for recipe in RECIPES:
        for setting, methods in grouped.items():
            for method in sweep_centers(methods) if setting.recipe == recipe else ():
                if not method.stock:
                    name = _name(method, setting.backbone)
                    where = replace(setting, recipe=f"{name}, by")  # reads "SASRec, by recipe"
                    same = json.dumps(method.keys, sort_keys=True)
                    variants.setdefault(where, {}).setdefault(same, {})[recipe] = method
    found = {}
    for setting, by_keys in sorted(variants.items()):
        several = [by_recipe for by_recipe in by_keys.values() if len(by_recipe) > 1]
        if several:
            found[setting] = max(several, key=lambda one: sum(len(method.records) for method in one.values()))
    return found


def backbone_row(methods: Sequence[Method]) -> Method | None:
    """What augmentations are measured against: the backbone trained as they are, else its stock model."""
    plain = [method for method in methods if method.augmentation == "none"]
    return min(plain, key=lambda method: method.stock, default=None)
