"""What README and docs quote must be what the records say; the text is made here, and looked for there."""

import json
from functools import cache
from statistics import mean, stdev

import pytest
from helpers import ROOT

from benchmarks import paper_views, reproduction
from recbole_asarrec.experiments.records import read
from recbole_asarrec.report.study import study

BENCHMARKS = ROOT / "benchmarks"


@cache
def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


@cache
def content(name):
    return json.loads((BENCHMARKS / f"{name}.json").read_text(encoding="utf-8"))


def short(value):
    return f"{value:.4f}".lstrip("0")


def spread(values):
    return short(mean(values)) + (f" ± {short(stdev(values))}" if len(values) > 1 else "")


@cache
def quality(folder, noise, **keys):
    """HR@10 / NDCG@10 over the seeds of one method, history kept, as the tables write it."""
    found = [
        record.test["all_items"]
        for record in read(BENCHMARKS / "results" / folder)
        if record.spec.noise_ratio == noise
        and record.spec.recipe == keys["recipe"]
        and record.spec.augmentation == keys["augmentation"]
    ]
    return " / ".join(spread([one[metric] for one in found]) for metric in ("hit@10", "ndcg@10"))


@pytest.mark.parametrize(
    ("recipe", "augmentation", "views"),
    [
        ("plain", "none", "none"),
        ("plain", "cl4srec", "CL4SRec"),
        ("robust", "none", "none"),
        ("robust", "asar", "AsarRec"),
    ],
)
def test_the_readmes_table(recipe, augmentation, views):
    clean, noisy = (
        quality("amazon-beauty", noise, recipe=recipe, augmentation=augmentation) for noise in (0, 0.2)
    )
    noisy += "" if "±" in noisy else " (one seed)"
    assert f"| {recipe} | {views} | {clean} | {noisy} |" in page("README.md")


@cache
def in_the_papers_setting(folder):
    """Methods with 20 % noise, as docs/paper.md has them."""
    settings = study(read(BENCHMARKS / "results" / folder))
    (methods,) = (
        methods
        for setting, methods in settings.items()
        if setting.noise_ratio == 0.2 and setting.backbone == "SASRec"
    )
    standing = {name: paper_views.standing(methods, name) for name in reproduction.NAMES}
    return {name: one for name, one in standing.items() if one}, methods


def gains(one, other):
    """Of HR@10 and NDCG@10 on test, history removed, in per cent."""
    mine, base = (
        [
            mean(r.test["unseen_items"][metric] for r in method.records.values())
            for metric in ("hit@10", "ndcg@10")
        ]
        for method in (one, other)
    )
    return [100 * (left / right - 1) for left, right in zip(mine, base)]


def test_what_views_gain_in_the_papers_setting():
    text = " ".join(page("README.md").split())
    standing, every = in_the_papers_setting("paper-arts")
    methods = {name: one for name, one in standing.items() if len(one.records) == 3}
    fixed = [name for name in methods if name not in ("none", "asar", "random_matrix")]
    best = max(fixed, key=lambda name: methods[name].validation())
    for rival, words in {
        "none": "over its backbone",
        "random_matrix": "over random matrices",
        best: f"over the best fixed augmentation, {reproduction.NAMES[best]}",
    }.items():
        found = gains(methods["asar"], methods[rival])
        assert "{:.1f} % HR@10 and {:.1f} % NDCG@10 {}".format(*found, words) in text
    (six,) = (one for one in every if one.augmentation.count("+") == 5)
    more, less = gains(methods["asar"], six)
    assert len(six.records) == 3 and f"{more:.1f} % more HR@10 and {-less:.1f} % less NDCG@10" in text
    methods, _ = in_the_papers_setting("paper-beauty")
    found = gains(methods["asar"], methods["none"])
    assert (
        "{:.1f} % HR@10 and {:.1f} % NDCG@10 over its backbone and is level with Mask".format(*found) in text
    )
    assert "level with Mask ({:.1f} %, {:.1f} %)".format(*gains(methods["asar"], methods["mask"])) in text


VIEWS = {
    "asar": "AsarRec",
    "asar, as published": "AsarRec with candidates and λ_NDCG as published",
    "learned to be hard against the history": "AsarRec's matrices learned to be hard against the unaugmented "
    "history, encoder without dropout",
    "learned by gradient agreement": "AsarRec's matrices learned so that contrast moves a history where "
    "recommendation would",
    "learned to preserve the label": "AsarRec's matrices learned to preserve the next item",
    "one of six operations": "one of six fixed operations, at random",
    "one of six operations, by a bandit": "one of six fixed operations, by a bandit",
    "crop, no noise in views": "Crop of histories without their noise",
    "crop, no noise in views and targets": "the same, and noise is no target",
}


def test_what_choosing_views_can_win():
    found = content("bound-arts")
    assert found["noise_ratio"] == 0.2 and found["results"].keys() <= VIEWS.keys()
    for name, seeds in found["results"].items():
        figures = " / ".join(
            short(mean(one[metric] for one in seeds.values())) for metric in ("hit@10", "ndcg@10")
        )
        assert f"| {VIEWS[name]} | {figures} |" in page("benchmarks/README.md")
    quoted = []
    for record in read(BENCHMARKS / "results" / "tuning-paper-arts"):  # the same 20 epochs and seed
        method = record.spec.augmentation
        chosen = {"crop": 0.1, "random_matrix": 0.3}.get(method)
        if chosen == reproduction.tried(record)[0] and record.spec.keys["contrastive_weight"] == 0.3:
            figures = " / ".join(short(record.valid[metric]) for metric in ("hit@10", "ndcg@10"))
            assert f"| {reproduction.NAMES[method]} | {figures} |" in page("benchmarks/README.md")
            quoted.append(method)
    assert sorted(quoted) == ["crop", "random_matrix"]


def test_the_service_under_load():
    for server in content("serving")["servers"]:
        for size, found in server["batches"].items():
            stop = server["on_sigterm"]
            figures = [
                f"{server['num_items']:,}",
                size,
                f"{found['p50_ms']:,.1f}",
                f"{found['p99_ms']:,.1f}",
                f"{found['requests_per_s']:.0f}",
                f"{found['requests_per_s'] * int(size):,.0f}",
                f"{stop['lost']} of {stop['answered']}",
            ]
            assert f"| {' | '.join(figures)} |" in page("docs/serving.md")


def test_ten_million_histories():
    found = content("recommend-beauty")
    minutes, seconds = divmod(round(found["seconds_for_all"]), 60)
    text = " ".join(page("docs/guide.md").split())
    assert found["histories"] == 10_000_000
    assert f"took {minutes} min {seconds} s on two cores" in text
    assert f"and {found['peak_mib']['many']:,.0f} MiB in three processes" in text
    assert f"one million took {found['peak_mib']['few']:,.0f} MiB" in text
    assert f"bare product of user and item vectors {1 / found['command_by_product']:.2f} of it" in text
    assert round(found["plain_by_command"]) == 7 and "seven times as long" in text


def test_training_further_on_new_data():
    found = content("warm-start-beauty")
    (one,) = found["rounds"]
    text = " ".join(page("docs/guide.md").split())
    fresh, warm = ([point["score"] for point in one[kind]["curve"]] for kind in ("fresh", "warm"))

    def epochs(curve, share):
        return next(n for n, score in enumerate(curve, 1) if score >= share * max(fresh))

    assert f"after {epochs(warm, 1)} epochs instead of {epochs(fresh, 1)}, and 95 % of it" in text
    assert f"95 % of it after {epochs(warm, 0.95)} instead of {epochs(fresh, 0.95)}." in text
    before, now = one["interactions"]["before"], one["interactions"]["now"]
    items = one["warm"]["items"]
    share = (items["near"] + items["random"]) / (items["kept"] + items["near"] + items["random"])
    assert round(1 - before / now, 1) == 0.2 and "a fifth of the interactions" in text
    assert f"and {100 * share:.0f} % of the items new" in text
    said = [
        " / ".join(short(found[f"{kind}_test"][metric]) for metric in ("hit@10", "ndcg@10"))
        for kind in ("warm", "fresh")
    ]
    assert f"are {said[0]}, and {said[1]} from nothing" in text
    assert len(fresh) == len(warm) == 40


def test_an_epoch_in_the_papers_setting():
    found = content("speed-paper-arts")
    names = {"none, paper": "none", "cl4srec, paper": "CL4SRec", "random_matrix, paper": "random matrices"}
    names["AsarRec, paper"] = "AsarRec"
    for name, shown in names.items():
        assert f"| {shown} | {found['contenders'][name]['epoch_s']:.2f} | " in page("docs/speed.md")


def test_an_epoch_beside_stock_recbole():
    found = content("speed-beauty")["contenders"]
    stock = found["RecBole SASRec"]["epoch_s"]
    names = {"RecBole SASRec": "RecBole SASRec", "none, prefix": "backbone here, `prefix`"}
    names |= {
        "AsarRec, prefix": "AsarSASRec, `prefix`",
        "none, all positions": "backbone here, `all_positions`",
    }
    names["AsarRec, all positions"] = "AsarSASRec, `all_positions`"
    for name, shown in names.items():
        seconds = found[name]["epoch_s"]
        ratio = "1" if seconds == stock else f"{seconds / stock:.3f}"
        assert f"| {shown} | {seconds:.1f} | {ratio} | " in page("docs/speed.md")
