"""Records of runs that were never run: ranks drawn so that each method's true effect is known."""

from __future__ import annotations

import numpy as np

from recbole_asarrec.experiments.records import Record, Spec
from recbole_asarrec.experiments.significance import METRICS, per_user

NASTY = "<script>alert(1)</script>"


def draw_ranks(effect: float, seed: int, users: int = 400, items: int = 1000) -> np.ndarray:
    """Ranks of users who differ in difficulty; ``effect`` is how much smaller their logarithm is."""
    difficulty = np.random.default_rng(0).normal(3.5, 1.5, users)
    luck = np.random.default_rng([seed, round(1e6 * abs(effect))]).normal(0, 0.5, users)
    return np.clip(np.exp(difficulty + luck - effect), 1, items).astype(np.uint32)


def make_record(
    augmentation="asar",
    seed=1,
    effect=0.0,
    noise_ratio=0.0,
    dataset="toy",
    model="AsarSASRec",
    users="everyone",
    number=400,
    views=None,
    **keys,
) -> Record:
    """A finished run; ``effect`` is its method's, and noise takes some of it away."""
    chosen = {"augmentation": augmentation, **keys} if model.startswith("Asar") else dict(keys)
    if noise_ratio:
        chosen["noise_ratio"] = noise_ratio
    ranks = {
        "all_items": draw_ranks(effect - noise_ratio, seed, number),
        "unseen_items": draw_ranks(effect - noise_ratio + 0.1, seed, number),
    }
    test = {name: {m: float(per_user(r, m).mean()) for m in METRICS} for name, r in ranks.items()}
    curve = [
        {
            "epoch": epoch,
            "seconds": 4.0 + 0.1 * (seed % 3) + (augmentation != "none"),
            "losses": {"recommendation": 8.0 - 0.2 * epoch},
            "valid": {m: value * (1 - 0.7 ** (epoch + 1)) for m, value in test["all_items"].items()},
        }
        for epoch in range(12 + seed % 3)
    ]
    return Record(
        spec=Spec(model, dataset, seed, chosen),
        config={
            "contrastive_weight": 0.1,
            "perturbation_budget": 0.1,
            "valid_metric": "NDCG@10",
            "num_candidates": 3,
            "diversity_weight": 1.0,
            "semantic_weight": 5.0,
            **chosen,
        },
        machine={"processor": "a processor", "torch": "2.13.0", "commit": "abc1234"},
        noise={"fingerprint": f"noise {noise_ratio}"} if noise_ratio else None,
        curve=curve,
        best_epoch=len(curve) - 1,
        valid=curve[-1]["valid"],
        test=test,
        ranks=ranks,
        users=users,
        seconds=sum(entry["seconds"] for entry in curve),
        peak_gib=1.25,
        views=views,
    )


def made_views(noise: bool = False) -> dict:
    """What ``describe_views`` gives, in small, with names that try to be markup."""
    case = {
        "user": NASTY,
        "length": 5,
        "items": ["i1", "i2", "i3", "i4", NASTY, "i9", "i8"],
        "next": "i7",
        "floor": 0.7355,
        "views": [
            {
                "source": [0, 2, 1, 4],
                "kinds": ["kept", "moved", "moved", "kept"],
                "dropped": [3],
                "ndcg": 0.81,
            },
            {
                "source": [0, 1, 5, 3, 6, 4],
                "kinds": ["kept", "kept", "substituted", "kept", "inserted", "kept"],
                "dropped": [2],
                "ndcg": 0.7,
            },
        ],
    }
    other = {**case, "user": "u2", "items": ["i5", "i6", "i7", "i8", "i9", "i1", "i2"]}
    rates = {"kept": 0.8, "dropped": 0.1, "moved": 0.1, "inserted": 0.02, "substituted": 0.05}
    identity = np.vstack([np.eye(5) * 0.8, np.full((2, 5), 0.02)]).round(3).tolist()
    views = {
        "users": 400,
        "rates": [rates, rates],
        "ndcg": [0.9, 0.8],
        "floor": 0.7355,
        "matrix": {"length": 5, "users": 31, "views": [identity, identity]},
        "cases": [case, other],
        "titles": {"i1": "<img src=x onerror=alert(2)>", "i2": "Toy Story (1995)"},
    }
    if noise:
        views["noise"] = {"share": 0.25, "share_by_chance": 0.2, "share_of_dropped": 0.3, "lift": 1.5}
        views["denoising"] = {
            "dropped": 0.12,
            "noise": {"share": 0.25, "share_by_chance": 0.2, "share_of_dropped": 0.4, "lift": 2.0},
        }
        views["cases"] = [{**one, "noise": [3]} for one in (case, other)]
    return views


def small_study() -> list[Record]:
    """Six methods, clean and noisy, three seeds, and a sweep of k."""
    effects = {"none": 0.0, "crop": 0.05, "mask": -0.1, "insert": 0.1, "asar": 0.3}
    records = [
        make_record(name, seed, effect, noise, views=made_views(bool(noise)) if name == "asar" else None)
        for noise in (0.0, 0.2)
        for name, effect in effects.items()
        for seed in (1, 2, 3)
    ]
    records += [make_record(["insert", "mask"], seed, 0.02) for seed in (1, 2, 3)]
    records += [
        make_record("asar", seed, 0.2 + k / 100, num_candidates=k) for k in (0, 1, 10) for seed in (1, 2, 3)
    ]
    return records
