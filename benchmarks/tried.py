"""What else was tried to make the softmax faster: ``python benchmarks/tried.py -o benchmarks/tried.json``.

Shapes are those of Amazon Beauty: 1024 targets, 12,102 items, d = 64.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
import torch.nn.functional as F
from torch import Tensor

from recbole_asarrec.experiments import machine
from recbole_asarrec.kernels.fused import catalogue_cross_entropy
from recbole_asarrec.kernels.malloc import keep_freed_memory

NEGATIVES = 1000


def plain(encoded: Tensor, items: Tensor, targets: Tensor) -> Tensor:
    """As RecBole writes it."""
    return F.cross_entropy(encoded @ items.T, targets)


def half(encoded: Tensor, items: Tensor, targets: Tensor) -> Tensor:
    """As RecBole writes it, in half precision."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return F.cross_entropy(encoded @ items.T, targets)


def sampled(encoded: Tensor, items: Tensor, targets: Tensor) -> Tensor:
    """Uniform negatives, the same for all targets: another loss, not another way to compute it."""
    others = torch.randint(1, len(items), (NEGATIVES,))
    own = (encoded * items[targets]).sum(1, keepdim=True)
    scores = torch.cat([own, encoded @ items[others].T], dim=1)
    return F.cross_entropy(scores, torch.zeros_like(targets))


def main() -> None:
    """Forward and backward of each, in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("-o", "--output", required=True)
    arguments = parser.parse_args()
    keep_freed_memory()
    torch.manual_seed(0)
    encoded, items = torch.randn(1024, 64, requires_grad=True), torch.randn(12_102, 64, requires_grad=True)
    targets = torch.randint(1, 12_102, (1024,))
    contenders: dict[str, Callable[..., Tensor]] = {
        "fused (here)": catalogue_cross_entropy,
        "torch": plain,
        "torch.compile": torch.compile(plain),
        "bfloat16 autocast": half,
        f"sampled softmax, {NEGATIVES} negatives": sampled,
    }
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    warm_up = {}
    for number in range(arguments.rounds + 1):
        for name, loss in contenders.items():
            began = perf_counter()
            torch.autograd.grad(loss(encoded, items, targets), (encoded, items))
            spent = perf_counter() - began
            if number:
                seconds[name].append(spent)
            else:
                warm_up[name] = spent
    first = median(seconds["fused (here)"])
    table = {
        name: {"ms": median(times) * 1e3, "ratio": median(times) / first, "first_call_s": warm_up[name]}
        for name, times in seconds.items()
    }
    for name, row in table.items():
        print(f"{name:35s} {row['ms']:8.1f} ms  {row['ratio']:.2f}  first call {row['first_call_s']:.1f} s")
    record = {
        "command": "python benchmarks/tried.py",
        "machine": machine.describe(),
        "forward_backward": table,
    }
    Path(arguments.output).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
