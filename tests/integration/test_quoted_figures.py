"""What README and docs quote must be what the records say; the text is made here, and looked for there."""

import json
from functools import cache
from statistics import mean, stdev

import pytest
from helpers import ROOT

from recbole_asarrec.experiments.records import read

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


def test_what_views_gain_in_the_papers_setting():
    found = {"asar": [], "none": []}
    for record in read(BENCHMARKS / "results" / "paper-arts"):
        if record.spec.noise_ratio == 0.2 and record.spec.augmentation in found:
            found[record.spec.augmentation].append(record.test["unseen_items"])
    assert {len(one) for one in found.values()} == {3}
    gains = [
        mean(one[metric] for one in found["asar"]) / mean(one[metric] for one in found["none"]) - 1
        for metric in ("hit@10", "ndcg@10")
    ]
    said = "AsarRec gains {:.1f} % HR@10 and {:.1f} % NDCG@10 over its backbone (three seeds)"
    assert said.format(*(100 * gain for gain in gains)) in " ".join(page("README.md").split())


VIEWS = {
    "crop": "Crop",
    "asar": "AsarRec: learned to be hard, as published",
    "crop, no noise in views": "Crop of histories without their noise",
    "crop, no noise in views and targets": "the same, and noise is no target",
    "learned to be hard against the history": "AsarRec's matrices learned to be hard against the unaugmented "
    "history, encoder without dropout",
    "learned by gradient agreement": "AsarRec's matrices learned so that contrast moves a history where "
    "recommendation would",
    "learned to preserve the label": "AsarRec's matrices learned to preserve the next item",
    "crop, views predict": "Crop",
    "mask, 50 %, views predict": "Mask, half of the history",
    "asar, views predict": "AsarRec",
    "crop, no noise in views, views predict": "Crop of histories without their noise",
}


@pytest.mark.parametrize("file", ["bound-arts", "bound-arts-views-predict"])
def test_what_choosing_views_can_win(file):
    results = content(file)["results"]
    assert results.keys() <= VIEWS.keys()
    for name, found in results.items():
        row = f"| {VIEWS[name]} | {short(found['hit@10'])} / {short(found['ndcg@10'])} |"
        assert row in page("benchmarks/README.md")


def test_what_knowing_the_noise_is_worth_where_half_is_noise():
    found = content("bound-arts-half")
    crop, clean = (
        f"{short(one['hit@10'])} / {short(one['ndcg@10'])}"
        for one in (found["results"]["crop"], found["results"]["crop, no noise in views"])
    )
    text = " ".join(page("benchmarks/README.md").split())
    assert found["noise_ratio"] == 0.5
    assert f"half of all items noise, Crop has {crop}, and {clean} of histories without their noise" in text


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
